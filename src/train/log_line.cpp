#include "train/log_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "account/flops.h"
#include "account/peaks.h"
#include "base/units.h"

namespace stretto {
namespace {

double flops_per_rank(const Config& config, const StepRecord& record, Convention convention,
                      bool hardware) {
  const FlopsPerToken flops =
      flops_per_token(convention, config.model, config.seq_len, config.activation_checkpointing);
  const double per_token = hardware ? flops.hardware_total() : flops.model_total();
  return per_token * record.tokens_per_second() / static_cast<double>(config.world_size());
}

// The sign of a NaN has no meaning, and would be printed.
double unsigned_nan(double value) { return std::isnan(value) ? std::abs(value) : value; }

double three_digits(double value) {
  if (!(value > 0) || !std::isfinite(value)) return value;
  const double unit = std::pow(10, std::floor(std::log10(value)) - 2);
  return std::round(value / unit) * unit;
}

// Three digits, so that norms of any size stand below each other.
std::string norm_text(double norm) {
  const int decimals = norm < 1 ? 3 : norm < 10 ? 2 : norm < 100 ? 1 : 0;
  return norm < 0.01 || norm >= 1e5 ? fmt::format("{:.1e}", norm)
                                    : fmt::format("{:.{}f}", norm, decimals);
}

// "45 s", "12 min", "3.5 h", "2.5 d"
std::string rough_time(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  if (seconds < 99.5) return fmt::format("{:.0f} s", seconds);
  if (seconds < 99.5 * 60) return fmt::format("{:.0f} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{:.1f} h", seconds / 3600);
  return fmt::format("{:.1f} d", seconds / 86400);
}

// A part of the console's line. Those that come first are shown first where not all fit; `reserved`
// is the usual width, so that a field does not come and go with its digits.
constexpr int kAlways = 0;
struct Field {
  int order = kAlways;
  size_t reserved = 0;
  std::string text;
};

std::string joined(const std::vector<Field>& fields, size_t width) {
  constexpr std::string_view kBar = " | ";
  std::vector<size_t> by_order(fields.size());
  std::iota(by_order.begin(), by_order.end(), size_t{0});
  std::stable_sort(by_order.begin(), by_order.end(),
                   [&](size_t a, size_t b) { return fields[a].order < fields[b].order; });
  std::vector<bool> shown(fields.size());
  size_t taken = 0;
  for (const size_t i : by_order) {
    const size_t more = kBar.size() + std::max(fields[i].reserved, fields[i].text.size());
    shown[i] = fields[i].order == kAlways || taken + more <= width + kBar.size();
    if (shown[i]) taken += more;
  }
  std::string line;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (shown[i] && !fields[i].text.empty())
      line.append(line.empty() ? "" : kBar).append(fields[i].text);
  }
  return line;
}

// Share of the step in which the rank waited for another stage, transfers included.
std::optional<double> bubble(const Config& config, const StepRecord& r) {
  if (config.parallel.pp == 1 || !r.times.waits_known || !(r.times.total > 0)) return std::nullopt;
  return r.times.comm_pp / r.times.total;
}

// What the parts of the step took, as far as they were timed.
std::string times_json(const StepTimes& t) {
  std::string parts;
  const auto add = [&](const char* name, double seconds) {
    parts += fmt::format("{}\"{}\":{}", parts.empty() ? "" : ",", name, json_number(seconds));
  };
  if (t.ops_known) {
    for (int c = 0; c < kOpClasses; ++c) {
      add(name_of(static_cast<OpClass>(c)), t.ops[static_cast<size_t>(c)]);
    }
  }
  if (t.waits_known) {
    add("comm_dp", t.comm_dp);
    add("comm_tp", t.comm_tp);
    add("comm_pp", t.comm_pp);
  }
  add("data", t.data);
  if (t.ops_known && t.waits_known) add("host", t.host());
  return parts;
}

// Clocks, power and what held the GPU back while the step ran.
std::string gpu_json(const StepRecord& r) {
  if (r.device_bytes == 0) return "";
  const GpuWindow& g = r.gpu;
  return fmt::format(
      ",\"gpu\":{{\"bytes\":{},\"samples\":{},\"sm_clock_mhz\":{},\"sm_clock_mhz_min\":{},"
      "\"memory_clock_mhz\":{},\"power_watts\":{},\"temperature_c\":{},\"held_back_by\":\"{}\"}}",
      r.device_bytes, g.samples, json_number(g.sm_clock_mhz_mean), json_number(g.sm_clock_mhz_min),
      json_number(g.memory_clock_mhz_mean), json_number(g.power_watts_mean),
      json_number(g.temperature_c_max), throttle_text(g.throttle_reasons));
}

// ,"comm_bytes_by_call":{"dp":{"all_reduce":..}}, without the calls that sent nothing.
std::string bytes_by_call_json(const StepRecord& r) {
  std::string axes;
  const auto add_axis = [&](const char* axis, const CommCounters& c) {
    std::string calls;
    const auto add = [&](const char* call, uint64_t bytes) {
      if (bytes == 0) return;
      calls += fmt::format("{}\"{}\":{}", calls.empty() ? "" : ",", call, bytes);
    };
    add("all_reduce", c.all_reduce_bytes);
    add("reduce_scatter", c.reduce_scatter_bytes);
    add("all_gather", c.all_gather_bytes);
    add("broadcast", c.broadcast_bytes);
    add("send", c.send_bytes);
    if (calls.empty()) return;
    axes += fmt::format("{}\"{}\":{{{}}}", axes.empty() ? "" : ",", axis, calls);
  };
  add_axis("dp", r.comm_dp);
  add_axis("tp", r.comm_tp);
  add_axis("pp", r.comm_pp);
  return axes.empty() ? "" : fmt::format(",\"comm_bytes_by_call\":{{{}}}", axes);
}

}  // namespace

void LineMeans::add(const StepRecord& record) {
  last_ = record;
  (record.skipped ? skipped_ : learned_).add(record.loss);
  // The first step of a run is slow, and its time counts only where it is the only one.
  if (std::exchange(warm_, true)) {
    seconds_ += record.times.total;
    tokens_ += record.tokens;
    ++timed_;
  }
}

StepRecord LineMeans::take() {
  StepRecord mean = last_;
  mean.loss = (learned_.count > 0 ? learned_ : skipped_).mean();
  if (timed_ > 0) {
    mean.times.total = seconds_ / static_cast<double>(timed_);
    mean.tokens = tokens_ / timed_;
  }
  learned_ = skipped_ = {};
  seconds_ = 0;
  timed_ = tokens_ = 0;
  return mean;
}

std::string json_number(double value) {
  return std::isfinite(value) ? fmt::format("{:.17g}", value) : "null";
}

double model_flops_per_rank(const Config& config, const StepRecord& record) {
  return flops_per_rank(config, record, Convention::mpt, false);
}

std::optional<double> mfu(const Config& config, const StepRecord& record) {
  if (!(record.peak > 0) || !(record.times.total > 0)) return std::nullopt;
  return model_flops_per_rank(config, record) / record.peak;
}

double megatron_flops_per_rank(const Config& config, const StepRecord& record) {
  return flops_per_rank(config, record, Convention::megatron, true);
}

std::string compact_line(const Config& config, const StepRecord& r, double eta_seconds,
                         size_t width) {
  const double flops = model_flops_per_rank(config, r) * static_cast<double>(config.world_size());
  const auto share = mfu(config, r);
  std::vector<Field> fields = {
      {kAlways, 0, fmt::format("step {:>{}}/{}", r.step, fmt::to_string(r.steps).size(), r.steps)},
      {kAlways, 0, fmt::format("loss {:.4f}", unsigned_nan(r.loss))},
      {4, 10, fmt::format("norm {:>5}", norm_text(unsigned_nan(r.grad_norm)))},
      {3, 10, fmt::format("lr {:.1e}", r.learning_rate)},
      {2, 11, fmt::format("{:>5} tok/s", format_count(three_digits(r.tokens_per_second())))},
      {7, 8, format_seconds(r.times.total)},
      {8, 12, format_rate(flops, 3)}};
  if (share) fields.push_back({5, 9, fmt::format("MFU {:.1f}%", 100 * *share)});
  if (config.precision == Precision::amp_fp16) {
    fields.push_back({1, 0, fmt::format("scale {:g}", r.loss_scale)});
  }
  if (r.skipped) fields.push_back({kAlways, 0, "SKIPPED"});
  // The last line keeps the fields of those before.
  fields.push_back({6, 10, r.step < r.steps ? "eta " + rough_time(eta_seconds) : ""});
  return joined(fields, width);
}

std::string compact_evaluation(int64_t step, double loss) {
  loss = unsigned_nan(loss);
  return fmt::format("eval at step {} | loss {:.4f} | perplexity {:.2f}", step, loss,
                     std::exp(loss));
}

std::string megatron_line(const Config& config, const StepRecord& r) {
  // Not from the batch, which is the last step's; tokens are a mean, as the time is.
  const double samples_per_second = r.tokens_per_second() / static_cast<double>(config.seq_len);
  return fmt::format(
      " iteration {:8d}/{:8d} | consumed samples: {:12d} | consumed tokens: {:12d} | "
      "elapsed time per iteration (s): {:.2f} | learning rate: {:.3E} | global batch size: {:5d} | "
      "lm loss: {:.6E} | loss scale: {:.1f} | grad norm: {:.3f} | num zeros: {:.1f} | "
      "number of skipped iterations: {:3d} | number of nan iterations: {:3d} | "
      "samples per second: {:.3f} | TFLOPs: {:.2f} |",
      r.step, r.steps, r.consumed_samples, r.consumed_tokens, r.times.total, r.learning_rate,
      r.global_batch, unsigned_nan(r.loss), r.loss_scale, unsigned_nan(r.grad_norm), r.zeros,
      r.skipped_total, r.nan_total, samples_per_second, megatron_flops_per_rank(config, r) / 1e12);
}

// Megatron caps what it takes e to the power of.
std::string megatron_evaluation(int64_t step, double loss) {
  loss = unsigned_nan(loss);
  return fmt::format(
      " validation loss at iteration {} | lm loss value: {:.6E} | lm loss PPL: {:.6E} | ", step,
      loss, std::exp(std::min(20.0, loss)));
}

std::string json_line(const Config& config, const StepRecord& r) {
  std::string operators;  // calls, seconds, FLOPs and bytes of each
  for (int op = 0; op < kOps; ++op) {
    const OpTotals& totals = r.operators[static_cast<size_t>(op)];
    if (totals.calls == 0) continue;
    operators +=
        fmt::format("{}\"{}\":[{},{},{},{}]", operators.empty() ? "" : ",",
                    name_of(static_cast<Op>(op)), totals.calls, json_number(totals.seconds),
                    json_number(totals.flops), json_number(totals.bytes));
  }
  if (!operators.empty()) operators = fmt::format(",\"operators\":{{{}}}", operators);
  std::string more = bytes_by_call_json(r) + operators + gpu_json(r);
  if (const auto share = mfu(config, r)) {
    more = fmt::format(",\"mfu\":{}{}", json_number(*share), more);
  }
  if (const auto share = bubble(config, r)) {
    more = fmt::format(",\"bubble\":{}{}", json_number(*share), more);
  }
  return fmt::format(
      "{{\"step\":{},\"updates\":{},\"consumed_samples\":{},\"consumed_tokens\":{},"
      "\"global_batch\":{},\"loss\":{},\"learning_rate\":{},\"loss_scale\":{},\"grad_norm\":{},"
      "\"zeros\":{},\"skipped\":{},\"skipped_total\":{},\"nan_total\":{},\"seconds\":{},"
      "\"tokens_per_second\":{},\"model_flops_per_second_per_rank\":{},\"times\":{{{}}},"
      "\"comm_bytes\":{{\"dp\":{},\"tp\":{},\"pp\":{}}}{}}}",
      r.step, r.updates, r.consumed_samples, r.consumed_tokens, r.global_batch, json_number(r.loss),
      json_number(r.learning_rate), json_number(r.loss_scale), json_number(r.grad_norm),
      json_number(r.zeros), r.skipped, r.skipped_total, r.nan_total, json_number(r.times.total),
      json_number(r.tokens_per_second()), json_number(model_flops_per_rank(config, r)),
      times_json(r.times), r.comm_dp.bytes(), r.comm_tp.bytes(), r.comm_pp.bytes(), more);
}

// Megatron's second set of curves, over samples, is left out: TensorBoard would take those numbers
// for steps when a run goes on from a step before, and drop them all.
std::vector<Scalar> step_scalars(const Config& config, const StepRecord& r) {
  std::vector<Scalar> scalars = {{"lm loss", unsigned_nan(r.loss)},
                                 {"learning-rate", r.learning_rate},
                                 {"batch-size", static_cast<double>(r.global_batch)},
                                 {"loss-scale", r.loss_scale},
                                 {"grad-norm", unsigned_nan(r.grad_norm)},
                                 {"num-zeros", r.zeros},
                                 {"skipped-iterations", static_cast<double>(r.skipped_total)},
                                 {"iteration-time", r.times.total},
                                 {"throughput", megatron_flops_per_rank(config, r) / 1e12},
                                 {"tokens-per-second", r.tokens_per_second()}};
  if (const auto share = mfu(config, r)) scalars.push_back({"mfu", *share});
  if (const auto share = bubble(config, r)) scalars.push_back({"bubble", *share});
  if (r.device_bytes > 0) {
    scalars.push_back({"mem-reserved-bytes", static_cast<double>(r.device_bytes)});
  }
  if (r.gpu.samples > 0) {
    scalars.push_back({"power/gpu", r.gpu.power_watts_mean});
    scalars.push_back({"sm-clock/gpu", r.gpu.sm_clock_mhz_mean});
  }
  return scalars;
}

}  // namespace stretto
