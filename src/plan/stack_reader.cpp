#include "plan/stack_reader.h"

#include <fmt/format.h>

#include "base/error.h"
#include "config/suggest.h"
#include "plan/calibrate.h"
#include "plan/fields.h"

namespace stretto {
std::span<const EmbeddedFile> embedded_software();
}

namespace stretto::plan {
namespace {

void read_kernels(const Section& k, Stack& s) {
  k.allow({"attention", "causal", "fused_softmax", "forward_launches", "backward_launches",
           "backward_passes", "backward_softmax", "recompute_stops_early", "recompute_in_fp8",
           "fused_loss", "pass_whole", "pass_shared", "pass_ffn"});
  const std::string attention = k.text("attention");
  if (attention != "flash" && attention != "materialised") {
    k.fail("attention", "is '" + attention + "'", "use flash or materialised");
  }
  s.attention = attention == "flash" ? AttentionKernel::flash : AttentionKernel::materialised;
  s.causal_flash = k.flag_or("causal", true);
  const std::string softmax = k.text_or("fused_softmax", "always");
  if (softmax != "always" && softmax != "by_heads") {
    k.fail("fused_softmax", "is '" + softmax + "'", "use always or by_heads");
  }
  s.fused_softmax = softmax == "always" ? FusedSoftmax::always : FusedSoftmax::by_heads;
  s.kernels_forward = static_cast<int>(k.plain_or("forward_launches", 24));
  s.kernels_backward = static_cast<int>(k.plain_or("backward_launches", 44));
  s.backward_passes = k.plain_or("backward_passes", 2.0);
  s.backward_softmax = k.plain_or("backward_softmax", 1.25);
  s.recompute_stops_early = k.flag_or("recompute_stops_early", false);
  s.recompute_in_fp8 = k.flag_or("recompute_in_fp8", true);
  s.fused_loss = k.flag_or("fused_loss", false);
  s.pass_whole = k.plain_or("pass_whole", 11);
  s.pass_shared = k.plain_or("pass_shared", 8);
  s.pass_ffn = k.plain_or("pass_ffn", 2);
}

void read_abilities(const Section& a, Stack& s) {
  a.allow({"tensor", "pipeline", "interleave", "sequence", "zero", "gelu", "selective",
           "overlap_gradients", "zero_bubble", "hybrid"});
  s.can.tensor = a.flag_or("tensor", true);
  s.can.pipeline = a.flag_or("pipeline", true);
  s.can.interleave = a.flag_or("interleave", false);
  s.can.sequence = a.flag_or("sequence", false);
  s.can.gelu = a.flag_or("gelu", false);
  s.can.selective = a.flag_or("selective", false);
  s.can.zero_bubble = a.flag_or("zero_bubble", false);
  s.can.hybrid = a.flag_or("hybrid", false);
  s.can.overlap_gradients = a.flag_or("overlap_gradients", false);
  s.can.zero.clear();
  for (const std::string& word : a.words_or_empty("zero")) {
    if (word.size() != 1 || word[0] < '0' || word[0] > '3') {
      a.fail("zero", "holds '" + word + "'", "list stages 0 to 3");
    }
    s.can.zero.push_back(word[0] - '0');
  }
  if (s.can.zero.empty()) s.can.zero.push_back(0);
}

double checked(const Section& values, const YamlKey& key, const YamlNode& node, Constant id) {
  const double value = parse_number(node, values.place(key.name));
  const ConstantInfo& i = info(id);
  if (value < i.low || value > i.high) {
    values.fail(key.name,
                fmt::format("is {}, outside {} to {} {}", node.text, i.low, i.high, i.unit),
                "check the value and its unit");
  }
  return value;
}

// `priors` entries are [centre, sigma].
void read_priors(const Section& priors, Stack& s) {
  for (size_t i = 0; i < priors.node().keys.size(); ++i) {
    const YamlKey& key = priors.node().keys[i];
    const YamlNode& pair = priors.node().items[i];
    const Constant id = constant_from_key(key.name);
    if (!pair.is_sequence() || pair.items.size() != 2) {
      priors.fail(key.name, "is not [centre, sigma]", "write two numbers in brackets");
    }
    const double sigma = parse_number(pair.items[1], priors.place(key.name));
    if (!(sigma > 0)) priors.fail(key.name, "has a width that is not positive", "use 0.05 to 2");
    s.priors[static_cast<size_t>(id)] = {checked(priors, key, pair.items[0], id), sigma};
    s.constants.set(id, s.priors[static_cast<size_t>(id)].centre);
  }
}

void read_device_entry(const Section& d, Stack& s) {
  d.allow({"source", "fitted", "fitted_devices", "residual", "priors", "values"});
  if (d.has("priors")) read_priors(d.section("priors"), s);
  s.fit_source = d.text("source");
  s.fitted = d.flag_or("fitted", false);
  s.fitted_devices = static_cast<int64_t>(d.plain_or("fitted_devices", 0));
  s.residual = d.plain_or("residual", 0.12);
  if (!d.has("values")) return;
  const Section values = d.section("values");
  for (size_t i = 0; i < values.node().keys.size(); ++i) {
    const YamlKey& key = values.node().keys[i];
    const Constant id = constant_from_key(key.name);
    s.constants.set(id, checked(values, key, values.node().items[i], id));
  }
}

}  // namespace

Constant constant_from_key(std::string_view key) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < kConstants; ++i) {
    const Constant id = static_cast<Constant>(i);
    if (key == info(id).key) return id;
    keys.emplace_back(info(id).key);
  }
  throw Error(ExitCode::bad_config, fmt::format("unknown constant '{}'", key),
              did_you_mean(key, keys, "the constants are " + join_or(keys)));
}

Stack read_stack(std::string_view yaml, std::string_view origin, std::string_view device) {
  const YamlNode node = parse_yaml(yaml, std::string(origin));
  const Section root(node, "");
  root.allow({"name", "description", "sharding", "kernels", "abilities", "bytes", "priors", "fit",
              "devices", "own_runtime"});
  Stack s;
  s.name = root.text("name");
  s.description = root.text_or("description", "");
  const std::string sharding = root.text("sharding");
  if (sharding != "3d" && sharding != "fsdp") {
    root.fail("sharding", "is '" + sharding + "'", "use 3d or fsdp");
  }
  s.sharding = sharding == "3d" ? Sharding::pipeline_3d : Sharding::fsdp;
  read_kernels(root.section("kernels"), s);
  read_abilities(root.section("abilities"), s);
  const Section bytes = root.section("bytes");
  bytes.allow({"gather", "reduce", "zero1_gather"});
  s.gather_bytes = bytes.plain_or("gather", 2);
  s.reduce_bytes = bytes.plain_or("reduce", 2);
  s.dp_param_bytes = bytes.plain_or("zero1_gather", 2);
  if (root.has("priors")) read_priors(root.section("priors"), s);
  const Section fit = root.section("fit");
  fit.allow({"free", "huber", "noise"});
  for (const std::string& word : fit.words_or_empty("free")) {
    s.free.push_back(constant_from_key(word));
  }
  s.huber = fit.plain_or("huber", 0.008);
  s.noise = fit.plain_or("noise", 0.02);
  s.own_runtime = root.flag_or("own_runtime", false);
  s.fit_source = "defaults: no run of this software on this device";
  if (root.has("devices")) {
    const Section devices = root.section("devices");
    if (devices.has(device)) read_device_entry(devices.section(device), s);
  }
  return s;
}

std::vector<std::string> stack_names() { return names_of(embedded_software()); }

namespace {

// Reads a file of `calibrate --write`: constants of a known software, for some devices.
Stack overlaid_stack(const std::string& path, const Cluster& cluster) {
  const YamlNode node = read_yaml_file(path);
  const Section root(node, "");
  root.allow({"software", "devices"});
  const std::string base = root.text("software");
  if (is_file_name(base)) root.fail("software", "is a file", "name a known one: stretto");
  Stack s = find_stack(base, cluster);
  const Section devices = root.section("devices");
  if (!devices.has(cluster.device)) {
    root.fail("devices", fmt::format("has no {}, the device of {}", cluster.device, cluster.name),
              "calibrate on this cluster, or name the software without a file");
  }
  read_device_entry(devices.section(cluster.device), s);
  return s;
}

}  // namespace

Stack find_stack(const std::string& name, const Cluster& cluster) {
  if (is_file_name(name)) return overlaid_stack(name, cluster);
  if (const EmbeddedFile* file = find_file(embedded_software(), name)) {
    return read_stack(file->content, fmt::format("configs/software/{}", file->name),
                      cluster.device);
  }
  const std::vector<std::string> names = stack_names();
  throw Error(ExitCode::bad_config, fmt::format("unknown software '{}'", name),
              did_you_mean(name, names, "known: " + join_or(names) + "; or name a .yaml file"));
}

std::string stack_file(const Stack& stack, const std::string& entry) {
  return fmt::format("software: {}\ndevices:\n{}", stack.name, entry);
}

std::string device_entry(const Stack& stack, const std::string& device, const std::string& source,
                         double residual, bool fitted) {
  std::string text = fmt::format("  {}:\n    source: {}\n    fitted: {}\n", device, source, fitted);
  if (stack.fitted_devices > 0)
    text += fmt::format("    fitted_devices: {}\n", stack.fitted_devices);
  text += fmt::format("    residual: {:.4f}\n    values:\n", residual);
  std::vector<Constant> ids = stack.free;
  for (Constant id : memory_constants()) ids.push_back(id);
  for (Constant id : ids) {
    text += fmt::format("      {}: {:.5g}\n", info(id).key, stack.constants[id]);
  }
  return text;
}

}  // namespace stretto::plan
