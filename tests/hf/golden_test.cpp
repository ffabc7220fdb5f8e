// Against Hugging Face transformers: a tiny model of each family with the logits they compute, and
// config.json as several versions write it. Made by tools/make_hf_goldens.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "backend/backend.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"
#include "hf/family.h"
#include "hf/theirs.h"
#include "train/evaluate.h"
#include "train/generate.h"

namespace stretto::test {
namespace {

using nlohmann::json;

struct Golden : ::testing::TestWithParam<const char*> {
  const std::string family = GetParam();
  const json about = json::parse(content_of(golden_dir(family) + "/golden.json"));
};

// "config-5.23.0", ...
std::vector<std::string> configs(const std::string& family) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_dir(family))) {
    const std::string name = entry.path().stem();
    if (name.starts_with("config-")) names.push_back(name);
  }
  return names;
}

// Shape and bytes of each tensor in a file, by name.
std::map<std::string, std::pair<std::vector<int64_t>, std::string>> tensors_in(
    const std::string& path) {
  const std::string bytes = content_of(path);
  std::map<std::string, std::pair<std::vector<int64_t>, std::string>> tensors;
  for (const StTensor& t : open_safetensors(*posix_fs().map(path)).tensors) {
    const auto begin = static_cast<size_t>(t.begin), end = static_cast<size_t>(t.end);
    tensors[t.name] = {t.shape, bytes.substr(begin, end - begin)};
  }
  return tensors;
}

TEST_P(Golden, ImportComputesWhatTransformersCompute) {
  const auto tokens = about["tokens"].get<std::vector<int32_t>>();
  const auto wanted = about["logits"].get<std::vector<float>>();
  const float largest =
      std::fabs(*std::ranges::max_element(wanted, {}, [](float x) { return std::fabs(x); }));
  ASSERT_GE(configs(family).size(), 4u);
  for (const std::string& config : configs(family)) {
    SCOPED_TRACE(config);
    const Theirs theirs(family, config);
    theirs.import();
    const Checkpoint run = checkpoint_at(posix_fs(), theirs.dir / "run");
    const auto backend = make_cpu_backend(1);
    Decoder decoder(*backend, run, eval_config(run), std::ssize(tokens));
    float worst = 0;
    size_t at = 0;
    for (const int32_t token : tokens) {
      for (const float x : decoder.next(token)) {
        worst = std::max(worst, std::fabs(x - wanted.at(at++)));
      }
    }
    EXPECT_EQ(at, wanted.size());
    EXPECT_LT(worst, 1e-5f * largest);
  }
}

TEST_P(Golden, ExportWritesWhatTransformersWrite) {
  const Theirs theirs(family);
  theirs.import();
  export_hf(posix_fs(), checkpoint_at(posix_fs(), theirs.dir / "run"), theirs.dir / "out");
  EXPECT_EQ(tensors_in(theirs.dir / "out/model.safetensors"),
            tensors_in(golden_dir(family) + "/model.safetensors"));
  const json written = json::parse(content_of(theirs.dir / "out/config.json"));
  const json golden = json::parse(content_of(theirs.dir / "hf/config.json"));
  size_t same = 0;
  for (const auto& [key, value] : written.items()) {
    // Settings of training and generation, which an import does not keep.
    const bool other = key.ends_with("_pdrop") || key.ends_with("_token_id") ||
                       key == "use_cache" || key == "learned_pos_emb";
    if (other || !golden.contains(key)) continue;
    ++same;
    if (value.is_object()) {
      for (const auto& [inner, part] : value.items()) EXPECT_EQ(part, golden[key][inner]) << inner;
    } else {
      EXPECT_EQ(value, golden[key]) << key;
    }
  }
  EXPECT_GE(same, 12u);
}

INSTANTIATE_TEST_SUITE_P(All, Golden, ::testing::Values("gpt2", "mpt"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace stretto::test
