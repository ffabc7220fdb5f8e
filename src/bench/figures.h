// What is derived from a record: throughput, utilisation under every convention, FLOP/s.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "account/flops.h"
#include "bench/record.h"
#include "bench/statistics.h"

namespace stretto {

struct ConventionFigures {
  Convention convention = Convention::mpt;
  double model_flops = 0;                  // per second and device
  double hardware_flops = 0;               // with recomputation
  std::optional<Utilization> utilization;  // empty: unknown peak
};

struct Figures {
  Summary step;  // seconds, of the timed steps
  double tokens_per_second = 0, low_tokens_per_second = 0, high_tokens_per_second = 0;
  double samples_per_second = 0;
  double tokens_per_second_per_device = 0;
  std::vector<ConventionFigures> conventions;  // in the order of kConventions
  double aggregate_pflops = 0;                 // model FLOPs (mpt), 1e15
  // Rate of executed FLOPs over the measured rate of matrix products.
  std::optional<double> gemm_fraction;
  double loss_first = 0, loss_last = 0;  // NaN without steps

  const ConventionFigures& of(Convention convention) const {
    return conventions[static_cast<size_t>(convention)];
  }
};

Figures derive(const RunRecord& record);  // all zero without timed steps
nlohmann::json to_json(const Figures& figures);

// Empty if the count exceeds 64 bits: a point may have been rejected for its shape, which can have
// any values.
std::optional<int64_t> parameters_of(const Config& config);
std::optional<int64_t> batch_tokens(const Config& config);

// Micro-batches per step and data-parallel rank.
int64_t grad_accumulation(const Config& config);

// The ZeRO stage that has an effect: 0 where there is only one data-parallel rank.
int zero_in_effect(const Config& config);

}  // namespace stretto
