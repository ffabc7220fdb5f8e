#include "cli/plan_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "account/gpu_limits.h"
#include "account/rank_order.h"
#include "base/ceil_div.h"
#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "bench/safe_text.h"
#include "config/registry.h"
#include "config/rules.h"
#include "config/schema.h"
#include "config/suggest.h"
#include "plan/forecast.h"
#include "plan/search.h"

namespace stretto::cli {
namespace {

template <typename Enum>
Enum enum_from(const std::string& word, const std::vector<Enum>& values, const char* option) {
  std::vector<std::string> names;
  for (Enum value : values) {
    if (word == name_of(value)) return value;
    names.emplace_back(name_of(value));
  }
  throw Error(ExitCode::usage, fmt::format("{} '{}' is unknown", option, word),
              did_you_mean(word, names, "use " + join_or(names)));
}

Precision precision_from(const std::string& word) {
  return enum_from<Precision>(word,
                              {Precision::fp32, Precision::amp_bf16, Precision::bf16,
                               Precision::amp_fp16, Precision::amp_fp8},
                              "--precision");
}

// Warns of settings that change the time of a step but are not in the model.
void warn_of_unmodelled(const Config& words, const plan::Cluster& cluster) {
  std::vector<std::string> keys;
  if (words.tf32 && cluster.has_gpus()) keys.emplace_back("tf32=true");
  if (words.deterministic) keys.emplace_back("deterministic=true");
  const Config by_default;
  if (parse_rank_order(words.parallel.order) != parse_rank_order(by_default.parallel.order)) {
    keys.push_back("parallel.order=" + words.parallel.order);
  }
  if (keys.empty()) return;
  spdlog::warn("plan: the cost model does not include {}", fmt::join(keys, ", "));
}

// The run on one rank that does this work: it breaks the rules that no layout can keep.
Config run_of(const plan::Workload& work, const Config& words, const plan::Cluster& cluster) {
  Config run = words;
  run.model = work.model;
  run.seq_len = work.seq_len;
  run.precision = work.precision;
  run.global_batch = work.global_batch;
  run.device = cluster.has_gpus() ? Device::cuda : Device::cpu;
  run.micro_batch = 1;
  run.parallel = {};
  run.parallel.reduce_dtype = words.parallel.reduce_dtype;
  return run;
}

// Whether the search can be held to the value that this key has.
bool can_be_kept(const std::string& key, const Config& config) {
  const ParallelConfig& p = config.parallel;
  if (key == "parallel.schedule") return std::ranges::count(plan::kSearchedSchedules, p.schedule);
  if (key == "parallel.interleave") return std::ranges::count(plan::kChunksPerStage, p.interleave);
  return key != "micro_batch" || config.micro_batch != kAuto;
}

}  // namespace

ResolvedConfig read_words(const PlanOptions& o) {
  std::vector<std::string> words = o.model;
  const std::string& first = words.front();
  const bool name = first.find_first_of("=/") == std::string::npos && !first.ends_with(".yaml");
  if (words.size() == 1 && name) find_model(first);  // throws, and names similar models
  if (o.seq_len) words.push_back(fmt::format("seq_len={}", *o.seq_len));
  return load_config(words);
}

plan::Workload workload_of(const PlanOptions& o, const Config& config,
                           const plan::Cluster& cluster) {
  plan::Workload w = plan::workload_of(config);
  w.model_words = o.model;
  w.seq_len = o.seq_len.value_or(w.seq_len);
  w.model.positions = std::max(w.model.positions, w.seq_len);
  w.precision = precision_from(o.precision);
  if (cluster.host_bandwidth == 0) w.activation_offload = w.optimizer_offload = false;
  if (w.precision == Precision::amp_fp8 && cluster.matrix_flops_fp8 == 0) {
    throw Error(ExitCode::bad_config, fmt::format("{} has no fp8 units", cluster.name),
                "use --precision amp_bf16, or give the cluster device.matrix_rate_fp8");
  }
  const int64_t gpus = *o.gpus;
  // About four million tokens, such that a device's share can be halved several times, into
  // micro-batches.
  const int64_t wanted = std::max<int64_t>(1, (int64_t{4} << 20) / std::max<int64_t>(1, w.seq_len));
  int64_t share = ceil_div(wanted, gpus), even = 1;
  while (2 * even <= share / 8) even *= 2;
  const int64_t micro_batch = std::clamp<int64_t>(o.micro_batch.value_or(1), 1, 1 << 20);
  share = round_up(share, std::lcm(even, micro_batch));
  w.global_batch = o.global_batch.value_or(o.scale ? wanted : share * gpus);
  if (cluster.max_devices > 0 && gpus > cluster.max_devices && !o.scale) {
    throw Error(ExitCode::bad_config,
                fmt::format("{} asked for, but {} has {}", counted(gpus, "device"), cluster.name,
                            cluster.max_devices),
                "give fewer --gpus");
  }
  return w;
}

plan::Constraints constraints_of(const PlanOptions& o) {
  plan::Constraints c;
  c.devices = *o.gpus;
  c.shown = std::max(c.shown, o.top);
  c.dp = o.dp;
  c.tp = o.tp;
  c.pp = o.pp;
  c.micro_batch = o.micro_batch;
  c.interleave = o.interleave;
  if (o.zero) c.zero = static_cast<int>(*o.zero);
  if (!o.recompute.empty()) {
    c.recompute = enum_from<Checkpointing>(
        o.recompute,
        {Checkpointing::none, Checkpointing::gelu, Checkpointing::selective, Checkpointing::full},
        "--recompute");
  }
  if (!o.schedule.empty()) {
    c.schedule = enum_from<PipelineSchedule>(
        o.schedule, {plan::kSearchedSchedules.begin(), plan::kSearchedSchedules.end()},
        "--schedule");
  }
  c.allow_tight = o.tight;
  c.keep_rejected = o.rejected;
  return c;
}

PlanOptions with_defaults(PlanOptions o, const ResolvedConfig& words,
                          const plan::Cluster& cluster) {
  const auto says = [&](const char* key) { return words.origin_of(key).source > Source::registry; };
  if (o.precision.empty() && says("precision")) o.precision = name_of(words.config.precision);
  if (!o.global_batch && says("global_batch")) o.global_batch = words.config.global_batch;
  if (!o.gpus) o.gpus = cluster.time_shared ? cluster.devices_per_node : 8;
  plan::check_devices(constraints_of(o));
  if (o.precision.empty()) o.precision = name_of(plan::default_precision(cluster));
  if (!o.global_batch && cluster.time_shared) o.global_batch = 8 * *o.gpus;
  return o;
}

void note_replaced_words(const PlanOptions& o, const Config& config) {
  const struct {
    const char *key, *option;
    bool given;
  } planned[] = {{"parallel.dp", "--dp", o.dp.has_value()},
                 {"parallel.tp", "--tp", o.tp.has_value()},
                 {"parallel.pp", "--pp", o.pp.has_value()},
                 {"parallel.zero", "--zero", o.zero.has_value()},
                 {"parallel.schedule", "--schedule", !o.schedule.empty()},
                 {"parallel.interleave", "--interleave", o.interleave.has_value()},
                 {"micro_batch", "--micro-batch", o.micro_batch.has_value()},
                 {"activation_checkpointing", "--recompute", !o.recompute.empty()}};
  for (const std::string& word : o.model) {
    const std::string key = word.substr(0, word.find('='));
    for (const auto& p : planned) {
      if (key != p.key || p.given) continue;
      const std::string keep = fmt::format("; {} {} keeps it", p.option, render_key(key, config));
      spdlog::info("plan: {} is chosen anew{}", printable(word),
                   can_be_kept(key, config) ? keep : "");
    }
  }
}

void check_runtime_options(const plan::Workload& work, const Config& words,
                           const plan::Cluster& cluster, const plan::Stack& stack) {
  const bool narrow = work.gradient_type != DType::f32 || work.reduce_type != DType::f32;
  const bool offload = words.activation_offload || words.optimizer_offload;
  if (!stack.own_runtime) {
    if (narrow || offload || work.logits_chunk > 0) {
      spdlog::warn(
          "plan: {} has no gradient_dtype, reduce_dtype, logits_chunk or offloading: they are "
          "ignored",
          stack.name);
    }
    return;
  }
  warn_of_unmodelled(words, cluster);
  plan::check_workload(work);
  for (const Finding& finding : check_config(run_of(work, words, cluster))) {
    // More tensor ranks have fewer heads each.
    const bool of_layout = finding.rule == "gpu-heads" && work.model.head_size() <= kGpuHeadSize;
    if (of_layout || finding.severity != Severity::error) continue;
    throw Error(ExitCode::bad_config, fmt::format("plan: {} {}", finding.key, finding.message),
                finding.fix);
  }
  if (offload && cluster.host_bandwidth == 0) {
    spdlog::warn("plan: on a CPU offloading would use the same memory: it is ignored");
  }
}

}  // namespace stretto::cli
