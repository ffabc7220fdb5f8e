#include "bench/figures.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "account/parameters.h"
#include "train/batch_plan.h"
#include "train/rank_plan.h"

namespace stretto {
namespace {

using nlohmann::json;

ConventionFigures convention_figures(const RunRecord& record, Convention convention,
                                     double tokens_per_second) {
  const Config& c = record.config;
  const FlopsPerToken flops =
      flops_per_token(convention, c.model, c.seq_len, c.activation_checkpointing, run_cut(c));
  const auto devices = static_cast<double>(record.devices());
  ConventionFigures out;
  out.convention = convention;
  out.model_flops = flops.model_total() * tokens_per_second / devices;
  out.hardware_flops = flops.hardware_total() * tokens_per_second / devices;
  const auto peak = record.peak > 0 ? std::optional(record.peak) : std::nullopt;
  out.utilization = utilization(flops, tokens_per_second, devices, peak);
  return out;
}

json number(double value) { return std::isfinite(value) ? json(value) : json(); }

}  // namespace

int64_t grad_accumulation(const Config& config) {
  // A point that was rejected may have any values.
  const auto within = [](int64_t x, int64_t low, int bits) {
    return std::clamp(x, low, int64_t{1} << bits);
  };
  return rounds(within(config.global_batch, 0, 60), within(config.micro_batch, 1, 36),
                within(config.parallel.dp, 1, 24));
}

std::optional<int64_t> parameters_of(const Config& config) {
  const ModelShape& m = config.model;
  for (const int64_t size : {m.layers, m.hidden, m.ffn, m.vocab, m.positions}) {
    if (size < 0) return std::nullopt;
  }
  const auto c = static_cast<double>(m.hidden), f = static_cast<double>(m.ffn);
  // An upper bound for the formula and for everything that it adds up on the way.
  const double layer = 4 * c * c + 2 * c * f + 10 * c + f;
  const double tables = 2 * static_cast<double>(m.vocab) + static_cast<double>(m.positions);
  const double most = tables * c + (static_cast<double>(m.layers) + 1) * layer + 2 * c;
  constexpr double kMost = 9e18;
  return most < kMost ? std::optional(parameter_count(m)) : std::nullopt;
}

std::optional<int64_t> batch_tokens(const Config& config) {
  int64_t tokens = 0;
  if (__builtin_mul_overflow(config.global_batch, config.seq_len, &tokens)) return std::nullopt;
  return tokens;
}

int zero_in_effect(const Config& config) {
  return config.parallel.dp > 1 ? config.parallel.zero : 0;
}

Figures derive(const RunRecord& record) {
  Figures f;
  f.loss_first = f.loss_last = NAN;
  if (!record.steps.empty()) {
    f.loss_first = record.steps.front().loss;
    f.loss_last = record.steps.back().loss;
  }
  f.step = summarise(record.timed_seconds());
  const auto samples = static_cast<double>(record.config.global_batch);
  const double tokens = samples * static_cast<double>(record.config.seq_len);
  if (f.step.median > 0) {
    f.samples_per_second = samples / f.step.median;
    f.tokens_per_second = tokens / f.step.median;
    f.low_tokens_per_second = tokens / f.step.high;
    f.high_tokens_per_second = tokens / f.step.low;
  }
  f.tokens_per_second_per_device = f.tokens_per_second / static_cast<double>(record.devices());
  for (const Convention convention : kConventions) {
    // A shape without a parameter count has no figures either.
    f.conventions.push_back(f.step.median > 0 && parameters_of(record.config)
                                ? convention_figures(record, convention, f.tokens_per_second)
                                : ConventionFigures{convention, 0, 0, {}});
  }
  f.aggregate_pflops =
      f.of(Convention::mpt).model_flops * static_cast<double>(record.devices()) / 1e15;
  if (record.gemm_peak > 0 && f.step.median > 0) {
    f.gemm_fraction = f.of(Convention::hardware).hardware_flops / record.gemm_peak;
  }
  return f;
}

json to_json(const Figures& f) {
  json conventions = json::object();
  for (const ConventionFigures& c : f.conventions) {
    json& one = conventions[name_of(c.convention)];
    one = {{"model_tflops_per_device", c.model_flops / 1e12},
           {"hardware_tflops_per_device", c.hardware_flops / 1e12}};
    if (c.utilization) {
      one["mfu"] = c.utilization->mfu;
      one["mfu_star"] = c.utilization->mfu_star;
      one["hfu"] = c.utilization->hfu;
      one["hfu_star"] = c.utilization->hfu_star;
    }
  }
  return {{"sec_per_it",
           {{"steps", f.step.count},
            {"median", f.step.median},
            {"p10", f.step.p10},
            {"p90", f.step.p90},
            {"mean", f.step.mean},
            {"median_low", f.step.low},
            {"median_high", f.step.high},
            {"confidence", 0.95}}},
          {"tokens_per_second", f.tokens_per_second},
          {"tokens_per_second_low", f.low_tokens_per_second},
          {"tokens_per_second_high", f.high_tokens_per_second},
          {"tokens_per_second_per_device", f.tokens_per_second_per_device},
          {"samples_per_second", f.samples_per_second},
          {"aggregate_pflops", f.aggregate_pflops},
          {"gemm_fraction", f.gemm_fraction ? json(*f.gemm_fraction) : json()},
          {"loss_first", number(f.loss_first)},
          {"loss_last", number(f.loss_last)},
          {"conventions", std::move(conventions)}};
}

}  // namespace stretto
