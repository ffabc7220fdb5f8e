// Configurations: a YAML text, then after a line of "%%" one override per line. Whatever the bytes,
// the answer is a Config or an Error; what was accepted survives YAML and JSON unchanged; and the
// memory of what is valid can be counted.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "config/reader.h"
#include "config/rules.h"
#include "config/schema.h"
#include "config/serialize.h"
#include "train/batch_plan.h"
#include "train/rank_plan.h"

namespace stretto {
namespace {

void require_same(const Config& a, const Config& b) {
  for (const Key& key : config_keys()) {
    if (key.get(a) != key.get(b)) throw std::logic_error("round trip changed " + key.name);
  }
}

// No product of sizes leaves 64 bits. Lists of millions of tensors, and schedules of thousands of
// stages, are legal but slow.
void require_countable(Config config) {
  if (!is_valid(config) || config.parallel.pp > 16) return;
  config.micro_batch = std::max<int64_t>(1, config.micro_batch);  // auto
  const int64_t count = rounds(config.global_batch, config.micro_batch, config.parallel.dp);
  if (count * config.model.layers > 1 << 14) return;
  for (const RankShape& shape : stage_shapes(config)) {
    double total = 0;
    const std::vector<TensorSpec> plan = memory_plan(shape);
    for (const TensorSpec& spec : plan) {
      double elements = 1;
      for (int i = 0; i < spec.shape.dims(); ++i) elements *= static_cast<double>(spec.shape[i]);
      const double bytes = elements * static_cast<double>(dtype_size(spec.type));
      if (!(bytes >= 0 && bytes < 0x1p63)) throw std::logic_error("too large: " + spec.label);
      if (spec.over.empty()) total += bytes;
    }
    const auto counted = static_cast<double>(memory_totals(plan).total);
    const double rounding = 1e-9 * total + 256.0 * static_cast<double>(plan.size());
    if (std::abs(counted - total) > rounding) throw std::logic_error("sum of the plan");
    if (config.device == Device::cuda && gpu_overhead(shape, config.repeatable, false) >> 62 != 0) {
      throw std::logic_error("too large: what a GPU needs beside the plan");
    }
  }
}

YamlNode read_tree(std::string_view input) {
  const size_t cut = input.find("\n%%\n");
  YamlNode root = parse_yaml(input.substr(0, cut), "fuzz.yaml");
  if (cut == std::string_view::npos || !root.is_mapping()) return root;
  std::string_view rest = input.substr(cut + 4);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view word = rest.substr(0, end);
    if (is_override(word)) merge_yaml(root, override_tree(word));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return root;
}

}  // namespace
}  // namespace stretto

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stretto;
  ResolvedConfig resolved;
  try {
    resolved = resolve_config(read_tree({reinterpret_cast<const char*>(data), size}));
  } catch (const Error& error) {
    if (error.code() == ExitCode::internal) throw;
    return 0;
  }
  for (const Finding& finding : check_config(resolved.config)) describe(finding, resolved);
  require_same(load_config_text(to_yaml(resolved), "again").config, resolved.config);
  require_same(config_from_json(to_json(resolved.config)), resolved.config);
  require_countable(resolved.config);
  return 0;
}
