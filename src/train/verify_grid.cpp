#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "config/rules.h"
#include "train/verify.h"

namespace stretto {
namespace {

constexpr const char* kOneProcess = "one process";
constexpr const char* kOneFixed = "one process, fixed order";

constexpr Tolerance kExact = {{}, "the same sums in the same order: every bit is equal"};

// In the first step only the order of sums differs. Later steps start from weights that differ
// already, which multiplies differences by ten to twenty. The same happens in one process with
// another micro-batch size (docs/parallelism.md has the figures).
Tolerance order_of_sums(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return {{1e-5, 1e-4}, "fp32 sums in another order, carried on by the weights"};
    case Precision::amp_bf16:
    case Precision::amp_fp16:
      return {{5e-3, 5e-2},
              "activations rounded to 16 bits after sums in another order",
              Limits{4e-4, 4e-3}};
    case Precision::amp_fp8:
      return {{5e-3, 2e-1},
              "operands rounded to 8 bits after sums in another order",
              Limits{4e-3, 4e-2}};
    case Precision::bf16:
      return {{2e-2, 2e-1},
              "weights and gradients rounded to bf16 after sums in another order",
              Limits{4e-4, 4e-3}};
  }
  return {};
}

// For topologies whose products are cut as in one process: the gradients of the first step differ
// only by the order in which f32 adds them up.
Tolerance order_of_gradients(const Config& config) {
  Tolerance tolerance = order_of_sums(config.precision);
  if (types_of(config.precision, config.gradient_dtype).gradient == DType::f32) {
    tolerance.first_step = Limits{1e-6, 1e-5};
  }
  return tolerance;
}

Limits wider(const Limits& a, const Limits& b) {
  return {std::max(a.loss, b.loss), std::max(a.grad_norm, b.grad_norm)};
}

// The largest micro-batch up to `most` that leaves whole ones on each of up to four ranks: a fixed
// order of sums needs the same micro-batches for every dp.
int64_t whole_micro_batch(const Config& config, int64_t most) {
  const RampUp& ramp = config.train.ramp_up;
  const int64_t batch = std::gcd(std::gcd(config.global_batch, ramp.start), ramp.increment);
  int64_t dp = 4;
  while (batch % dp != 0) dp /= 2;
  if (dp == 1) return most;
  while (batch / dp % most != 0) --most;
  return most;
}

Config reference(const Config& base, int64_t steps) {
  Config config = base;
  const std::string order = base.parallel.order;
  config.parallel = {};
  config.parallel.order = order;
  config.activation_checkpointing = Checkpointing::none;
  config.activation_offload = config.optimizer_offload = false;
  config.deterministic = false;
  config.repeatable = true;
  config.train.steps = steps;
  config.train.warmup = std::min(config.train.warmup, steps);
  config.train.decay = std::min(config.train.decay, steps - config.train.warmup);
  if (config.train.schedule == LrSchedule::wsd && config.train.decay == 0) {
    config.train.schedule = LrSchedule::constant;
  }
  config.train.eval_every = 0;
  config.train.audit_every = std::max<int64_t>(1, steps / 4);
  config.gpu_clock = 0;
  config.output.clear();  // and whatever needs one
  config.checkpoint = {};
  config.log = {};
  config.trace = 0;
  // Enough micro-batches for four ranks and for a pipeline of four stages.
  const int64_t most = std::max<int64_t>(1, config.global_batch / 4);
  config.micro_batch = whole_micro_batch(
      config, config.micro_batch == kAuto ? most : std::min(config.micro_batch, most));
  return config;
}

class Grid {
 public:
  Grid(const Config& base, int64_t most_ranks, int64_t steps)
      : one_(reference(base, steps)),
        most_ranks_(most_ranks),
        close_(order_of_sums(base.precision)),
        same_products_(order_of_gradients(base)) {
    require_valid(one_);  // an empty grid would prove nothing
  }

  // Adds the case if it fits the ranks and its reference is in the grid.
  template <typename Change>
  void add(const std::string& name, const std::string& against, Tolerance tolerance,
           Change&& change) {
    VerifyCase one{name, against, one_, tolerance};
    change(one.config);
    if (one.config.world_size() > most_ranks_) return;
    const std::string why = why_not(one);
    if (why.empty()) {
      cases_.push_back(std::move(one));
    } else {
      left_out_.push_back({name, why});
    }
  }
  template <typename Change>
  void add_close(const std::string& name, Change&& change) {
    Config config = one_;
    change(config);
    const bool same = config.parallel.tp == 1 && config.micro_batch == one_.micro_batch;
    add(name, kOneProcess, same ? same_products_ : close_, std::forward<Change>(change));
  }

  // Trains the first half on `writer`, the second half on `reader`; both must be in the grid.
  void add_resume(const std::string& writer, const std::string& reader) {
    const VerifyCase& first = find(writer);
    VerifyCase one = find(reader);
    const bool same = writer == reader;
    one.name = same ? fmt::format("{}, saved and resumed", writer)
                    : fmt::format("{}, resumed on {}", writer, reader);
    one.against = same ? writer : kOneProcess;
    one.tolerance = same ? kExact : close_;
    one.saved_by = {writer, first.config};
    cases_.push_back(std::move(one));
  }

  // The first `count` of these that are in the grid.
  std::vector<std::string> first_of(const std::vector<std::string>& names, size_t count) const {
    std::vector<std::string> found;
    for (const std::string& name : names) {
      if (found.size() < count && has(name)) found.push_back(name);
    }
    return found;
  }

  std::vector<VerifyCase> take() { return std::move(cases_); }
  std::vector<LeftOut> take_left_out() { return std::move(left_out_); }

 private:
  std::string why_not(const VerifyCase& one) const {
    const std::vector<Finding> findings = check_config(one.config);  // errors come first
    if (!findings.empty() && findings[0].severity == Severity::error) {
      return fmt::format("{} {}", findings[0].key, findings[0].message);
    }
    return one.against.empty() || has(one.against) ? "" : one.against + " is left out";
  }
  std::vector<VerifyCase>::const_iterator at(const std::string& name) const {
    return std::find_if(cases_.begin(), cases_.end(),
                        [&](const VerifyCase& one) { return one.name == name; });
  }
  bool has(const std::string& name) const { return at(name) != cases_.end(); }
  const VerifyCase& find(const std::string& name) const { return *at(name); }

  Config one_;
  int64_t most_ranks_;
  Tolerance close_, same_products_;
  std::vector<VerifyCase> cases_;
  std::vector<LeftOut> left_out_;
};

void set(Config& c, int64_t dp, int64_t tp, int64_t pp, int zero = 0) {
  c.parallel.dp = dp;
  c.parallel.tp = tp;
  c.parallel.pp = pp;
  c.parallel.zero = zero;
}

// The smallest micro-batch that does not divide the global batch.
int64_t ragged(int64_t global_batch) {
  int64_t size = 2;
  while (global_batch % size == 0) ++size;
  return size;
}

// Gradients kept in bf16 are rounded once per sum, and the number of sums depends on dp.
void add_data_parallel(Grid& grid, Precision precision) {
  const Tolerance in_order = precision == Precision::bf16 ? order_of_sums(precision) : kExact;
  for (const int64_t dp : {2, 4}) {
    const std::string name = fmt::format("dp{}", dp), fixed = name + ", fixed order";
    grid.add_close(name, [=](Config& c) { set(c, dp, 1, 1); });
    grid.add(name + ", ZeRO-1", name, kExact, [=](Config& c) { set(c, dp, 1, 1, 1); });
    for (int zero = 0; zero <= 3; ++zero) {
      grid.add(zero == 0 ? fixed : fmt::format("{}, ZeRO-{}", fixed, zero), kOneFixed, in_order,
               [=](Config& c) {
                 set(c, dp, 1, 1, zero);
                 c.deterministic = true;
               });
    }
  }
}

// Gradients are rounded to 8 significant bits before they are sent. The first step's loss does not
// see them, and in the gradient norm most of the rounding cancels out. Later steps inherit it
// through the weights, like any other difference.
void add_rounded_reductions(Grid& grid, Precision precision) {
  const Tolerance rounded = {wider({1e-3, 5e-3}, order_of_sums(precision).any_step),
                             "gradients rounded to bf16 before sums over dp", Limits{1e-6, 1e-3}};
  const auto bf16 = [](int64_t dp, int zero) {
    return [=](Config& c) {
      set(c, dp, 1, 1, zero);
      c.parallel.reduce_dtype = DType::bf16;
    };
  };
  grid.add("dp2, bf16 sums", kOneProcess, rounded, bf16(2, 0));
  grid.add("dp2, bf16 sums, ZeRO-1", "dp2, bf16 sums", kExact, bf16(2, 1));
  grid.add("dp4, bf16 sums, ZeRO-3", kOneProcess, rounded, bf16(4, 3));
}

void add_pipelines(Grid& grid) {
  for (const int64_t pp : {2, 4}) {
    const std::string name = fmt::format("pp{}", pp);
    grid.add_close(name, [=](Config& c) { set(c, 1, 1, pp); });
    for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::eager_one_f_one_b,
                                PipelineSchedule::zero_bubble}) {
      grid.add(fmt::format("{}, {}", name, name_of(schedule)), name, kExact, [=](Config& c) {
        set(c, 1, 1, pp);
        c.parallel.schedule = schedule;
      });
    }
  }
  grid.add_close("pp2, interleaved", [](Config& c) {
    set(c, 1, 1, 2);
    c.parallel.schedule = PipelineSchedule::interleaved;
    c.parallel.interleave = 2;
  });
}

void add_tensor_parallel(Grid& grid) {
  for (const int64_t tp : {2, 4}) {
    grid.add_close(fmt::format("tp{}", tp), [=](Config& c) { set(c, 1, tp, 1); });
    grid.add_close(fmt::format("tp{}, whole sequences", tp), [=](Config& c) {
      set(c, 1, tp, 1);
      c.parallel.sequence_parallel = false;
    });
  }
}

void add_products(Grid& grid) {
  grid.add_close("dp2 x tp2", [](Config& c) { set(c, 2, 2, 1); });
  grid.add_close("dp2 x tp2, ZeRO-3", [](Config& c) { set(c, 2, 2, 1, 3); });
  grid.add_close("dp2 x pp2", [](Config& c) { set(c, 2, 1, 2); });
  grid.add("dp2 x pp2, ZeRO-1", "dp2 x pp2", kExact, [](Config& c) { set(c, 2, 1, 2, 1); });
  grid.add_close("tp2 x pp2", [](Config& c) { set(c, 1, 2, 2); });
  grid.add("tp2 x pp2, full recomputation", "tp2 x pp2", kExact, [](Config& c) {
    set(c, 1, 2, 2);
    c.activation_checkpointing = Checkpointing::full;
  });
  grid.add("tp2 x pp2, offload", "tp2 x pp2", kExact, [](Config& c) {
    set(c, 1, 2, 2);
    c.activation_offload = c.optimizer_offload = true;
  });
  grid.add_close("dp2 x tp2, ragged", [](Config& c) {
    set(c, 2, 2, 1);
    c.micro_batch = ragged(c.global_batch);
  });
  grid.add_close("dp4, ZeRO-3, ragged", [](Config& c) {
    set(c, 4, 1, 1, 3);
    c.micro_batch = ragged(c.global_batch);
  });
  for (const int zero : {1, 2, 3}) {
    grid.add_close(fmt::format("dp4, ZeRO-{} in groups of 2", zero), [=](Config& c) {
      set(c, 4, 1, 1, zero);
      c.parallel.zero_group = 2;
    });
  }
  grid.add_close("dp2 x tp2 x pp2", [](Config& c) { set(c, 2, 2, 2); });
}

// Any topology can resume what any other has saved. On the same topology every bit must be equal.
void add_resumes(Grid& grid) {
  const std::vector<std::string> saved_on = grid.first_of(
      {kOneProcess, "dp4", "tp4", "pp4", "dp2 x tp2, ZeRO-3", "dp2 x pp2, ZeRO-1", "tp2 x pp2",
       "dp2", "tp2", "pp2, zero_bubble", "dp2, ZeRO-1", "tp2, whole sequences", "pp2"},
      6);
  for (const std::string& writer : saved_on) {
    for (const std::string& reader : saved_on) grid.add_resume(writer, reader);
  }
}

}  // namespace

std::vector<VerifyCase> verify_grid(const Config& base, int64_t most_ranks, int64_t steps,
                                    std::vector<LeftOut>* left_out) {
  Grid grid(base, most_ranks, steps);
  grid.add(kOneProcess, "", {}, [](Config&) {});
  grid.add(kOneFixed, "", {}, [](Config& c) { c.deterministic = true; });
  // On GPUs the epilogue of a product applies GELU before it rounds, but recomputation starts from
  // the rounded product: results differ from the first step on.
  const bool fused = base.device == Device::cuda && base.precision != Precision::fp32;
  Tolerance repeated = fused ? order_of_sums(base.precision) : kExact;
  repeated.first_step.reset();
  grid.add("GELU recomputation", kOneProcess, repeated,
           [](Config& c) { c.activation_checkpointing = Checkpointing::gelu; });
  grid.add("selective recomputation", kOneProcess, repeated,
           [](Config& c) { c.activation_checkpointing = Checkpointing::selective; });
  grid.add("full recomputation", kOneProcess, kExact,
           [](Config& c) { c.activation_checkpointing = Checkpointing::full; });
  grid.add("offload", kOneProcess, kExact,
           [](Config& c) { c.activation_offload = c.optimizer_offload = true; });
  grid.add_close("ragged", [](Config& c) { c.micro_batch = ragged(c.global_batch); });
  add_data_parallel(grid, base.precision);
  const PrecisionTypes types = types_of(base.precision, base.gradient_dtype);
  if (types.gradient == DType::f32) add_rounded_reductions(grid, base.precision);
  add_tensor_parallel(grid);
  add_pipelines(grid);
  add_products(grid);
  if (steps > 1) add_resumes(grid);
  if (left_out != nullptr) *left_out = grid.take_left_out();
  return grid.take();
}

}  // namespace stretto
