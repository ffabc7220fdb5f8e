// What ModelShape describes and no page of the model runs is refused, and named.
#include <gtest/gtest.h>

#include <string>

#include "config/reader.h"
#include "config/rules.h"

namespace stretto {
namespace {

// No key can ask for these yet: they come from a program that counts or imports a model.
TEST(EngineRule, RefusesByNameWhatTheEngineDoesNotRun) {
  const Config tiny = load_config({"tiny"}).config;
  const auto refused = [&](const char* what, auto change) {
    Config c = tiny;
    change(c.model);
    for (const Finding& f : check_config(c)) {
      if (std::string(f.rule) == "engine" && f.message.find(what) != std::string::npos) return true;
    }
    return false;
  };
  EXPECT_TRUE(refused("RMSNorm", [](ModelShape& m) { m.norm = Norm::rms; }));
  EXPECT_TRUE(refused("epsilon", [](ModelShape& m) { m.norm_eps = 1e-6; }));
  EXPECT_TRUE(refused("norms elsewhere", [](ModelShape& m) { m.order = Order::sandwich; }));
  EXPECT_TRUE(refused("queries", [](ModelShape& m) { m.qk_norm = QkNorm::head; }));
  EXPECT_TRUE(refused("rotary", [](ModelShape& m) { m.position_kind = Positions::rope; }));
  EXPECT_TRUE(refused("no positions", [](ModelShape& m) { m.position_kind = Positions::none; }));
  EXPECT_TRUE(refused("without GELU", [](ModelShape& m) { m.mlp = Mlp::swiglu; }));
  EXPECT_TRUE(refused("grouped heads", [](ModelShape& m) { m.kv_heads = 1; }));
  EXPECT_TRUE(refused("heads whose sizes", [](ModelShape& m) { m.head_dim = 64; }));
  EXPECT_TRUE(refused("biases in some", [](ModelShape& m) { m.biases.qkv = false; }));
  EXPECT_TRUE(refused("biases in some", [](ModelShape& m) { m.biases.head = true; }));
  EXPECT_TRUE(refused("experts", [](ModelShape& m) { m.experts.count = 8; }));
  EXPECT_TRUE(refused("windows", [](ModelShape& m) { m.pattern = {{16, false}}; }));
  EXPECT_FALSE(refused("", [](ModelShape&) {}));
}

}  // namespace
}  // namespace stretto
