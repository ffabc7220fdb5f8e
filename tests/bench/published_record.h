// Published MPT and MosaicGPT rows as records, so that tables can be asked to print them again.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "account/flops.h"
#include "account/peaks.h"
#include "base/error.h"
#include "bench/published.h"

namespace stretto {

struct Range {
  double low = 0, high = std::numeric_limits<double>::infinity();

  void meet(double l, double h) {
    low = std::max(low, l);
    high = std::min(high, h);
  }
};

inline Config config_of(const ReferenceRow& row) {
  Config config;
  config.model = row.shape();
  config.seq_len = row.seq_len.value_or(0);
  config.precision = precision_of(row);
  config.micro_batch = row.micro_batch.value_or(1);
  config.global_batch = row.global_batch.value_or(1);
  config.device = Device::cuda;
  config.activation_checkpointing = row.checkpointing();
  config.parallel.dp = row.devices();
  config.parallel.zero = 3;  // FULL_SHARD in every row of these two tables
  return config;
}

inline bool truncates(const ReferenceRow& row) { return row.file == "mpt"; }

inline void meet(Range& range, const std::optional<Published>& cell, double scale, bool truncated) {
  if (!cell) return;
  if (truncated) {
    range.meet(cell->value * scale, (cell->value + 1) * scale);
  } else {
    range.meet((cell->value - cell->half) * scale, (cell->value + cell->half) * scale);
  }
}

// Tokens per second that agree with every figure of the row.
inline double tokens_per_second(const ReferenceRow& row, const RunRecord& record) {
  const Config& c = record.config;
  const auto gpus = static_cast<double>(record.devices());
  const Convention convention = row.file == "mpt" ? Convention::mpt : Convention::mosaicgpt;
  const FlopsPerToken flops =
      flops_per_token(convention, c.model, c.seq_len, c.activation_checkpointing);
  Range range;
  const bool truncated = truncates(row);
  meet(range, row.tokens_per_sec, 1, truncated);
  meet(range, row.samples_per_sec, static_cast<double>(c.seq_len), truncated);
  meet(range, row.tokens_per_sec_per_gpu, gpus, truncated);
  meet(range, row.mfu, gpus * record.peak / flops.model_total(), false);
  meet(range, row.hfu, gpus * record.peak / flops.hardware_total(), false);
  const bool tflops_from_mfu = c.precision == Precision::bf16;
  if (row.tflops && !tflops_from_mfu) {  // printed to 1e-6 x 1e14 FLOP/s
    const double half = 5e7;
    range.meet((row.tflops->value * 1e12 - half) * gpus / flops.model_total(),
               (row.tflops->value * 1e12 + half) * gpus / flops.model_total());
  }
  if (!(range.low < range.high) || !std::isfinite(range.high)) {
    throw Error(ExitCode::bad_data, row.id + ": its figures exclude each other", "");
  }
  return (range.low + range.high) / 2;
}

// Its configuration, its device, and one step whose time lies inside the rounding interval of every
// throughput and utilisation that it prints.
inline RunRecord record_of(const ReferenceRow& row) {
  RunRecord record;
  record.source = "published " + row.id;
  record.label = row.id;
  record.config = config_of(row);
  record.device = row.hardware;
  const bool fp8 = record.config.precision == Precision::amp_fp8;
  const auto peak = device_peak(row.hardware, fp8 ? PeakFormat::fp8 : PeakFormat::bf16);
  record.peak = peak.value_or(0);
  record.peak_source = peak ? "promised by the maker, dense" : "unknown peak";
  const double tokens =
      static_cast<double>(record.config.global_batch) * static_cast<double>(record.config.seq_len);
  record.steps.push_back({tokens / tokens_per_second(row, record), 0, false});
  return record;
}

}  // namespace stretto
