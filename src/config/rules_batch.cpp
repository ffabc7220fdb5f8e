// Rules about batches: over ranks, over micro-batches, over time. Ragged micro-batches are legal:
// 48 sequences with micro_batch 11 run as 11, 11, 11, 11, 4.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/ceil_div.h"
#include "base/units.h"
#include "config/rule_set.h"

namespace stretto {
namespace {

// Micro-batches per rank and step for a global batch; 0 when micro_batch is auto.
int64_t micro_batches(const Config& c, int64_t global_batch) {
  if (c.micro_batch == kAuto) return 0;
  return ceil_div(ceil_div(global_batch, c.parallel.dp), c.micro_batch);
}

void batch_dp(const Config& c, Report& report) {
  if (c.global_batch % c.parallel.dp == 0) return;
  report.add("global_batch", "is not a multiple of " + shown(c, "parallel.dp"),
             "use " + multiples_near(c.global_batch, c.parallel.dp));
}

void micro_batch_size(const Config& c, Report& report) {
  const int64_t per_rank = std::max<int64_t>(1, c.global_batch / c.parallel.dp);
  if (c.micro_batch == kAuto || c.micro_batch <= per_rank) return;
  report.add(
      "micro_batch",
      fmt::format("is more than the {} per rank of {} over {}", counted(per_rank, "sequence"),
                  shown(c, "global_batch"), shown(c, "parallel.dp")),
      fmt::format("use at most {}", per_rank));
}

void interleave_batch(const Config& c, Report& report) {
  if (c.parallel.schedule != PipelineSchedule::interleaved || c.micro_batch == kAuto) return;
  const int64_t count = micro_batches(c, c.global_batch);
  if (count % c.parallel.pp == 0) return;
  const int64_t step = c.parallel.dp * c.micro_batch * c.parallel.pp;
  report.add("global_batch",
             fmt::format("makes {} per rank; the interleaved schedule needs a "
                         "multiple of {}",
                         counted(count, "micro-batch"), shown(c, "parallel.pp")),
             "use " + multiples_near(c.global_batch, step));
}

void pipeline_fill(const Config& c, Report& report) {
  const int64_t count = micro_batches(c, c.global_batch);
  if (c.parallel.pp == 1 || count == 0 || count >= c.parallel.pp) return;
  report.add("global_batch",
             fmt::format("makes {} per rank, fewer than {}; most of the pipeline "
                         "idles",
                         counted(count, "micro-batch"), shown(c, "parallel.pp")),
             fmt::format("use global_batch={} or more",
                         4 * c.parallel.pp * c.parallel.dp * c.micro_batch));
}

bool ramps(const Config& c) { return c.train.ramp_up.start > 0; }

void ramp_up_fields(const Config& c, Report& report) {
  const RampUp& r = c.train.ramp_up;
  if (!ramps(c)) {
    if (r.increment == 0 && r.samples == 0) return;
    report.add("train.ramp_up.start", "is missing for a batch ramp-up",
               "set train.ramp_up.start, or remove the ramp-up");
    return;
  }
  if (r.increment == 0) {
    report.add("train.ramp_up.increment", "leaves the batch where it starts",
               fmt::format("set train.ramp_up.increment={}", r.start));
  }
  if (r.samples == 0) {
    report.add("train.ramp_up.samples", "gives the ramp-up no length",
               "set train.ramp_up.samples, e.g. 100k");
  }
}

void ramp_up_range(const Config& c, Report& report) {
  const RampUp& r = c.train.ramp_up;
  if (!ramps(c) || r.increment == 0) return;
  if (r.start > c.global_batch) {
    report.add("train.ramp_up.start", "is more than " + shown(c, "global_batch"),
               fmt::format("use at most {}", c.global_batch));
  } else if ((c.global_batch - r.start) % r.increment != 0) {
    report.add("train.ramp_up.increment",
               fmt::format("does not lead from {} to {}", shown(c, "train.ramp_up.start"),
                           shown(c, "global_batch")),
               "use " + divisors_near(c.global_batch - r.start, r.increment));
  }
}

void ramp_up_dp(const Config& c, Report& report) {
  if (!ramps(c)) return;
  const RampUp& r = c.train.ramp_up;
  if (r.start % c.parallel.dp != 0) {
    report.add("train.ramp_up.start", "is not a multiple of " + shown(c, "parallel.dp"),
               "use " + multiples_near(r.start, c.parallel.dp));
  }
  if (r.increment % c.parallel.dp != 0) {
    report.add("train.ramp_up.increment", "is not a multiple of " + shown(c, "parallel.dp"),
               "use " + multiples_near(r.increment, c.parallel.dp));
  }
}

// Every stage of the ramp must suit the interleaved schedule, not only the last.
void ramp_up_interleave(const Config& c, Report& report) {
  if (!ramps(c) || c.parallel.schedule != PipelineSchedule::interleaved) return;
  if (c.micro_batch == kAuto) return;
  const int64_t step = c.parallel.dp * c.micro_batch * c.parallel.pp;
  const RampUp& r = c.train.ramp_up;
  for (const auto& [key, value] : {std::pair{"train.ramp_up.start", r.start},
                                   std::pair{"train.ramp_up.increment", r.increment}}) {
    if (value % step == 0) continue;
    report.add(key,
               fmt::format("is not a multiple of dp x micro_batch x pp = {}, as the interleaved "
                           "schedule needs at every stage of the ramp",
                           step),
               "use " + multiples_near(value, step));
  }
}

void ramp_up_micro(const Config& c, Report& report) {
  if (!ramps(c) || c.micro_batch == kAuto) return;
  const int64_t step = c.parallel.dp * c.micro_batch;
  const int64_t increment = c.train.ramp_up.increment;
  if (increment % step == 0 && c.train.ramp_up.start % step == 0) return;
  report.add("micro_batch",
             fmt::format("leaves ragged micro-batches during the ramp-up with {}, {} and {}",
                         shown(c, "train.ramp_up.start"), shown(c, "train.ramp_up.increment"),
                         shown(c, "parallel.dp")),
             fmt::format("use a start and an increment that are multiples of {}", step));
}

// A product of n rows and `width` columns has work for all multiprocessors of a large GPU, a few
// times over, from about 2^25 elements on: 64 sequences of 1024 tokens of mpt-125m, 8 of 2048 of
// mpt-3b. With half of that it is still nearly as fast.
void gpu_rows(const Config& c, Report& report) {
  constexpr int64_t kFull = 1 << 25, kSmall = 512;  // of smaller models nobody expects speed
  if (c.device != Device::cuda || c.model.hidden < kSmall) return;
  const int64_t per_rank = std::max<int64_t>(1, c.global_batch / c.parallel.dp);
  const bool chosen = c.micro_batch == kAuto;
  const int64_t rows = c.seq_len * (chosen ? per_rank : std::min(c.micro_batch, per_rank));
  const int64_t width = std::max<int64_t>(1, c.model.hidden / c.parallel.tp);
  if (rows >= kFull / 2 / width) return;
  int64_t wanted = 1;
  while (wanted * c.seq_len * width < kFull) wanted *= 2;
  std::vector<std::string> fix;
  if (!chosen) fix.push_back(fmt::format("micro_batch={}", wanted));
  if (per_rank < wanted) fix.push_back(fmt::format("global_batch={}", wanted * c.parallel.dp));
  report.add("micro_batch",
             fmt::format("gives products of {} rows, which leave much of a GPU idle", rows),
             fmt::format("use {}{}", fmt::join(fix, " "),
                         chosen ? " or more" : ", or micro_batch=auto for the most that fits"));
}

constexpr Rule kRules[] = {
    {"batch-dp", Severity::error, batch_dp},
    {"interleave-batch", Severity::error, interleave_batch},
    {"ramp-up-fields", Severity::error, ramp_up_fields},
    {"ramp-up-range", Severity::error, ramp_up_range},
    {"ramp-up-dp", Severity::error, ramp_up_dp},
    {"ramp-up-interleave", Severity::error, ramp_up_interleave},
    {"micro-batch", Severity::advice, micro_batch_size},
    {"pipeline-fill", Severity::advice, pipeline_fill},
    {"ramp-up-micro", Severity::advice, ramp_up_micro},
    {"gpu-rows", Severity::advice, gpu_rows},
};

}  // namespace

std::span<const Rule> batch_rules() { return kRules; }

}  // namespace stretto
