// The search: complete, ranked, deterministic, fast; bad models are refused with the field.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/ceil_div.h"
#include "base/error.h"
#include "plan/advice.h"
#include "plan/report.h"
#include "plan_support.h"

namespace stretto::plan {
namespace {

Workload seven_b() { return {shape(32, 4096, 32, 50368), 2048, 256, Precision::amp_bf16}; }

TEST(Search, EqualsBruteForceOnASmallSpace) {
  Place p = place("a100-80", "megatron-deepspeed-2022");
  const Workload w{shape(12, 2048, 16, 50304), 1024, 24, Precision::amp_bf16};
  Constraints limits;
  limits.devices = 12;
  limits.allow_tight = true;
  const Plan plan = make_plan(p.cluster, p.stack, w, limits);
  double best = 1e300;
  size_t feasible = 0;
  for (int64_t dp = 1; dp <= 12; ++dp) {
    for (int64_t tp = 1; tp <= 12; ++tp) {
      for (int64_t pp = 1; pp <= 12; ++pp) {
        for (int64_t mbs = 1; mbs <= 24; ++mbs) {
          for (int zero : {0, 1}) {
            for (Checkpointing r : {Checkpointing::none, Checkpointing::full}) {
              for (bool embedding : {false, true}) {
                if (dp * tp * pp != 12 || tp > 8 || 16 % tp != 0 || 2048 % tp != 0) continue;
                if (24 % (dp * mbs) != 0 || (zero == 1 && dp == 1)) continue;
                if (embedding && (pp == 1 || 14 < 2 * pp)) continue;
                Layout l;
                l.dp = dp;
                l.tp = tp;
                l.pp = pp;
                l.micro_batch = mbs;
                l.zero = zero;
                l.recompute = r;
                const std::vector<int64_t> plain = stage_layers(w.model, l);
                l.partition.ends_count = embedding;
                if (embedding && stage_layers(w.model, l) == plain) continue;  // the same run
                if (estimate_memory(p.cluster, p.stack, w, l).fit == Fit::does_not_fit) continue;
                ++feasible;
                best = std::min(best, seconds(p, w, l));
              }
            }
          }
        }
      }
    }
  }
  ASSERT_FALSE(plan.ranked.empty());
  EXPECT_EQ(plan.ranked.size(), feasible);
  double fastest = 1e300;
  for (const Candidate& c : plan.ranked) fastest = std::min(fastest, c.estimate.seconds);
  EXPECT_DOUBLE_EQ(fastest, best);
  EXPECT_LE(plan.ranked.front().estimate.seconds, best * (1 + tie_width(p.stack)));
}

// The formula only removes layouts that are far too large; for our own runtime the exact plan
// decides.
TEST(Search, TheExactPlanDecidesWhatFits) {
  Place p = place("h100", "stretto");
  Workload w = seven_b();
  w.global_batch = 2048;
  Constraints limits;
  limits.devices = 64;
  Layout close;  // fits by the engine's list of tensors, tight by the formula
  close.dp = 64;
  close.micro_batch = 4;
  close.zero = 1;
  const MemoryEstimate exact = own_memory(p.cluster, p.stack, w, close);
  p.cluster.memory_bytes *= exact.needed() / exact.capacity / (kTight - 0.005);
  ASSERT_EQ(own_memory(p.cluster, p.stack, w, close).fit, Fit::fits);
  ASSERT_EQ(estimate_memory(p.cluster, p.stack, w, close).fit, Fit::tight);
  const Plan plan = make_plan(p.cluster, p.stack, w, limits);
  const auto found = std::find_if(plan.ranked.begin(), plan.ranked.end(), [&](const Candidate& c) {
    return describe(c.layout) == describe(close);
  });
  ASSERT_NE(found, plan.ranked.end());
  EXPECT_TRUE(found->memory.exact);
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(plan.ranked[i].memory.fit, Fit::fits);
}

// 16 layers on 12 stages: stages 3, 6, 9 and 12 have two, and the third has more in flight than the
// ones behind it.
TEST(Search, TheFullestStageOfAnUnevenPipelineCounts) {
  const Place p = place("h100", "stretto");
  const Workload w{shape(16, 7168, 56, 50368), 2048, 240, Precision::amp_bf16};
  Layout l;
  l.pp = 12;
  l.micro_batch = 6;
  const MemoryEstimate m = own_memory(p.cluster, p.stack, w, l);
  EXPECT_EQ(m.largest.total(), m.middle.total());
  // Ten micro-batches of two layers beside eleven of one.
  const double saved = saved_layer_bytes(w, l);
  EXPECT_GT(m.middle.checkpoints, 20 * saved);
  EXPECT_LT(m.middle.checkpoints, 22 * saved);
}

// What is advised for a schedule that was simulated is simulated, too.
TEST(Search, AdviceComparesLikeWithLike) {
  Place p = place("h100", "stretto");
  p.stack.own_runtime = false;  // which pads the vocabulary by itself
  Workload w = seven_b();
  w.model.vocab = 50257;
  w.global_batch = 8;
  Constraints limits;
  limits.devices = 64;
  const Plan plan = make_plan(p.cluster, p.stack, w, limits);
  const Candidate& best = plan.ranked.front();
  ASSERT_NE(best.layout.schedule, PipelineSchedule::one_f_one_b);
  Workload padded = w;
  padded.model.vocab = round_up(w.model.vocab, 64 * best.layout.tp);
  Estimate after = estimate(p.cluster, p.stack, padded, best.layout);
  refine_to_rank(after, padded, best.layout);
  bool found = false;
  for (const Advice& a : advice_for(p.cluster, p.stack, w, best)) {
    EXPECT_EQ(a.before, best.estimate.seconds) << a.text;
    // Embedding and head counted as layers: the table has it slower.
    EXPECT_TRUE(a.rule != "rebalance" || a.changes_model) << a.text;
    if (a.rule != "pad-vocabulary") continue;
    found = true;
    EXPECT_EQ(a.after, after.seconds);
  }
  EXPECT_TRUE(found);
}

TEST(Search, OurOwnRuntimePadsTheVocabularyItself) {
  const Place p = place("h100", "stretto");
  Constraints limits;
  limits.devices = 8;
  for (const int64_t vocab : {50257, 500}) {
    Workload w = seven_b();
    w.model.vocab = vocab;
    const Candidate best = make_plan(p.cluster, p.stack, w, limits).ranked.front();
    for (const Advice& a : advice_for(p.cluster, p.stack, w, best)) {
      EXPECT_NE(a.rule, "pad-vocabulary") << a.text;
    }
  }
}

TEST(Search, TheAnswerNamesTheLayoutItsTimeAndHowToRunIt) {
  const Place p = place("h100", "stretto");
  Constraints limits;
  limits.devices = 8;
  limits.tp = 2;
  limits.pp = 2;
  const Plan plan = make_plan(p.cluster, p.stack, seven_b(), limits);
  const std::string text = plan_text(plan, 3, false, false);
  EXPECT_NE(text.find("best: " + describe(plan.ranked.front().layout)), std::string::npos);
  EXPECT_NE(text.find("its time: matrix products"), std::string::npos);
  EXPECT_NE(text.find("parallel.dp=2 parallel.tp=2 "), std::string::npos) << text;
  EXPECT_NE(text.find(" parallel.pp=2 "), std::string::npos) << text;
}

// What a software cannot do is named, with what it can; so are sizes that do not divide.
TEST(Search, ConstraintsNothingCanObeyAreNamed) {
  const auto message = [](const char* software, const Constraints& limits) -> std::string {
    const Place p = place("a100-80", software);
    try {
      check_division(limits);
      make_plan(p.cluster, p.stack, seven_b(), limits);
    } catch (const Error& e) {
      return std::string(e.what()) + " / " + e.hint();
    }
    return "";
  };
  Constraints gelu;
  gelu.recompute = Checkpointing::gelu;
  EXPECT_EQ(message("stretto", gelu), "");
  EXPECT_EQ(message("composer-fsdp", gelu),
            "planning: composer-fsdp has no gelu recomputation / use none or full");
  Constraints tensor;
  tensor.tp = 2;
  EXPECT_EQ(message("composer-fsdp", tensor),
            "planning: composer-fsdp has no tensor parallelism / leave --tp out");
  Constraints sharded;
  sharded.zero = 2;
  EXPECT_EQ(message("megatron-deepspeed-2022", sharded),
            "planning: megatron-deepspeed-2022 has no ZeRO stage 2 / use 0 or 1");
  Constraints schedule;
  schedule.schedule = PipelineSchedule::zero_bubble;
  EXPECT_NE(message("megatron-deepspeed-2022", schedule), "");
  EXPECT_EQ(message("stretto", schedule), "");
  Constraints odd;
  odd.tp = 3;
  EXPECT_EQ(message("stretto", odd),
            "planning: tp 3 does not divide 8 devices / give sizes that divide --gpus");
  odd.tp = 2;
  odd.dp = 2;
  odd.pp = 1;
  EXPECT_EQ(message("stretto", odd),
            "planning: dp 2 x tp 2 x pp 1 is not 8 devices / give --gpus 4, or leave one of them "
            "out");
  Constraints many;
  many.devices = int64_t{1} << 40;
  EXPECT_NE(message("stretto", many).find("--gpus"), std::string::npos);
  Constraints huge;  // their product is 8 in 64 bits
  huge.dp = (int64_t{1} << 61) + 1;
  huge.tp = 8;
  EXPECT_EQ(message("stretto", huge),
            "planning: dp 2305843009213693953 x tp 8 does not divide 8 devices / give sizes that "
            "divide --gpus");
  huge.dp = huge.tp = huge.pp = int64_t{1} << 32;
  EXPECT_EQ(message("stretto", huge),
            "planning: dp 4294967296 x tp 4294967296 x pp 4294967296 is not 8 devices / leave one "
            "of them out");
}

// With few micro-batches the formula for zero bubble is a tenth too optimistic. Layouts that were
// not simulated must not overtake those that were.
TEST(Search, EveryLeaderIsSimulated) {
  const Place p = place("h100", "stretto");
  const Workload w{shape(80, 8192, 64, 50368), 2048, 2048, Precision::amp_bf16};
  Constraints limits;
  limits.devices = 65536;
  const Plan plan = make_plan(p.cluster, p.stack, w, limits);
  ASSERT_GT(plan.ranked.size(), 50u);
  for (size_t i = 0; i < 50; ++i) {
    const Layout& l = plan.ranked[i].layout;
    Estimate e = estimate(p.cluster, p.stack, w, l);
    if (l.schedule != PipelineSchedule::one_f_one_b) refine_by_simulation(e, w, l);
    EXPECT_EQ(plan.ranked[i].estimate.seconds, e.seconds) << i << ": " << describe(l);
  }
}

TEST(Search, IsDeterministic) {
  const Place p = place("h100", "stretto");
  Constraints limits;
  limits.devices = 64;
  const std::string first = plan_csv(make_plan(p.cluster, p.stack, seven_b(), limits), 1000);
  const std::string second = plan_csv(make_plan(p.cluster, p.stack, seven_b(), limits), 1000);
  EXPECT_EQ(first, second);
}

// The answer is a function of what is asked, not of the order in which files or lists say it.
TEST(Search, TheOrderOfInputsDoesNotMatter) {
  Place p = place("h100", "stretto");
  Constraints limits;
  limits.devices = 12;
  Workload w = seven_b();
  w.global_batch = 96;
  const std::string first = plan_csv(make_plan(p.cluster, p.stack, w, limits), 10000);
  while (std::next_permutation(p.stack.can.zero.begin(), p.stack.can.zero.end())) {
    EXPECT_EQ(plan_csv(make_plan(p.cluster, p.stack, w, limits), 10000), first);
  }
}

TEST(Search, RejectedLayoutsAreCountedAndListed) {
  const Place p = place("h100", "stretto");
  Constraints limits;
  limits.devices = 48;
  limits.keep_rejected = true;
  Workload w = seven_b();
  w.global_batch = 100;
  const Plan plan = make_plan(p.cluster, p.stack, w, limits);
  size_t counted = 0;
  for (size_t n : plan.rejected) counted += n;
  EXPECT_EQ(counted, plan.rejected_layouts.size());
  EXPECT_GT(plan.rejected[static_cast<size_t>(Reject::batch)], 0u);
}

TEST(Search, NothingFitsSaysWhatWould) {
  const Place p = place("a100-40", "composer-fsdp");
  const Workload w{shape(80, 8192, 64, 50368), 2048, 64, Precision::bf16};
  Constraints limits;
  limits.devices = 8;
  const Plan plan = make_plan(p.cluster, p.stack, w, limits);
  EXPECT_TRUE(plan.ranked.empty());
  ASSERT_TRUE(plan.nearest.has_value());
  const auto change = nearest_fit(p.cluster, p.stack, w, plan.nearest->layout);
  ASSERT_TRUE(change.has_value());
  EXPECT_NE(estimate_memory(p.cluster, p.stack, w, change->layout).fit, Fit::does_not_fit);
  EXPECT_NE(plan_text(plan, 5, false, false).find("it would fit with"), std::string::npos);
  // With stages, only sharding that such a layout can have is proposed.
  const Place own = place("a100-40", "stretto");
  const Plan other = make_plan(own.cluster, own.stack, w, limits);
  ASSERT_TRUE(other.nearest.has_value());
  const auto wider = nearest_fit(own.cluster, own.stack, w, other.nearest->layout);
  ASSERT_TRUE(wider.has_value());
  EXPECT_TRUE(wider->layout.pp == 1 || wider->layout.zero <= 1);
}

// What is proposed, a search with it finds; chunks of stages that cannot be cut are not tried.
TEST(Search, WhatWouldFitCanBeCutSo) {
  const Workload w{shape(48, 7168, 56, 50368), 2048, 4, Precision::amp_bf16};
  for (const char* software : {"stretto", "composer-fsdp"}) {
    for (const int64_t chunks : {1, 2, 4}) {
      const Place p = place("a100-40", software);
      if (chunks > 1 && !p.stack.can.interleave) continue;
      Constraints limits;
      limits.devices = p.stack.can.pipeline ? 2 : 4;
      if (p.stack.can.pipeline) limits.pp = 2;
      limits.interleave = chunks;
      const Plan plan = make_plan(p.cluster, p.stack, w, limits);
      ASSERT_TRUE(plan.nearest.has_value());
      const auto change = nearest_fit(p.cluster, p.stack, w, plan.nearest->layout);
      if (!change) continue;
      const int64_t dp = change->layout.dp;
      const std::string batch = fmt::format("--global-batch {}", round_up(w.global_batch, dp));
      EXPECT_EQ(w.global_batch % dp != 0, change->text.find(batch) != std::string::npos)
          << change->text;
      EXPECT_TRUE(change->layout.interleave == 1 || 48 % (change->layout.pp * chunks) == 0)
          << change->text;
    }
  }
}

// With embedding and head, 50 layers are 52 parts: eight stages cannot share them evenly, either.
TEST(Search, LayersThatLeaveStagesUnevenAreNamed) {
  const Place p = place("h100", "stretto");
  Constraints limits;
  limits.devices = 8;
  limits.pp = 8;
  for (const int64_t layers : {46, 49, 50, 51, 52, 54}) {
    const Workload w{shape(layers, 7168, 56, 50368), 2048, 2048, Precision::amp_bf16};
    const Plan plan = make_plan(p.cluster, p.stack, w, limits);
    ASSERT_FALSE(plan.ranked.empty());
    bool named = false;
    for (const Advice& a : advice_for(p.cluster, p.stack, w, plan.ranked.front())) {
      named = named || (std::string_view(a.rule) == "rebalance" && a.changes_model);
    }
    EXPECT_EQ(named, (layers + 2) % 8 != 0) << layers;
  }
}

// The interleaved order wants whole rounds of micro-batches.
TEST(Search, AdviceKeepsWholeRounds) {
  const Place p = place("h100", "stretto");
  Constraints limits;
  limits.devices = limits.pp.emplace(4);
  limits.interleave = 2;
  limits.micro_batch = 1;
  const auto larger = [&](int64_t global_batch) {
    const Workload w{shape(24, 1024, 16, 50368), 128, global_batch, Precision::amp_bf16};
    const Plan plan = make_plan(p.cluster, p.stack, w, limits);
    const auto advice = advice_for(p.cluster, p.stack, w, plan.ranked.at(0));
    return std::any_of(advice.begin(), advice.end(),
                       [](const Advice& a) { return a.rule == "micro-batch"; });
  };
  EXPECT_TRUE(larger(16));
  EXPECT_FALSE(larger(12));  // six are not two rounds
}

// Half as many, cut in any way, would not do.
TEST(Search, NoMoreDevicesThanNeededAreProposed) {
  const Place p = place("a100-40", "stretto");
  const Workload w{shape(80, 8192, 64, 50368), 2048, 2048, Precision::amp_bf16};
  Constraints limits;
  limits.devices = 1;
  const Plan plan = make_plan(p.cluster, p.stack, w, limits);
  ASSERT_TRUE(plan.nearest.has_value());
  const auto change = nearest_fit(p.cluster, p.stack, w, plan.nearest->layout);
  ASSERT_TRUE(change.has_value());
  limits.devices = change->layout.devices() / 2;
  EXPECT_TRUE(make_plan(p.cluster, p.stack, w, limits).ranked.empty()) << limits.devices;
}

// The first estimate for our own runtime follows its types, and does not refuse what its exact plan
// allows.
TEST(Search, OwnRuntimeIsNotRefusedByAnEstimate) {
  const Place p = place("h100", "stretto");
  Constraints limits;
  limits.devices = 1;
  limits.allow_tight = true;
  const auto ranked = [&](Workload w) {
    w.model.positions = w.seq_len;
    bool any = false;
    for (const Checkpointing mode : kCheckpointings) {
      Layout l;
      l.recompute = mode;
      any = any || own_memory(p.cluster, p.stack, w, l).fit != Fit::does_not_fit;
    }
    EXPECT_EQ(any, !make_plan(p.cluster, p.stack, w, limits).ranked.empty())
        << name_of(w.precision) << " " << w.model.layers;
    return any;
  };
  int fit = 0, unfit = 0;
  for (const Precision precision : {Precision::fp32, Precision::amp_bf16, Precision::bf16}) {
    for (const bool offload : {false, true}) {
      for (int64_t layers = 8; layers <= 120; layers += 4) {
        Workload w{shape(layers, 4096, 32, 50368), 2048, 8, precision};
        w.optimizer_offload = offload;
        (ranked(w) ? fit : unfit) += 1;
      }
    }
  }
  EXPECT_GT(fit, 20);
  EXPECT_GT(unfit, 20);
}

// Options of our own runtime are proposed before more devices.
TEST(Search, OffloadingIsProposedBeforeMoreDevices) {
  const Place p = place("h100", "stretto");
  Constraints limits;
  limits.devices = 1;
  const auto advice = [&](int64_t layers) {
    const Workload w{shape(layers, 5120, 40, 50368), 2048, 8, Precision::amp_bf16};
    const Plan plan = make_plan(p.cluster, p.stack, w, limits);
    EXPECT_TRUE(plan.ranked.empty()) << layers;
    const auto change = nearest_fit(p.cluster, p.stack, w, plan.nearest->layout);
    return change ? change->text : "";
  };
  EXPECT_EQ(advice(15).rfind("gradient_dtype=bf16, ", 0), 0u) << advice(15);
  EXPECT_EQ(advice(36).rfind("optimizer_offload=true, ", 0), 0u) << advice(36);
  EXPECT_EQ(advice(48).rfind("gradient_dtype=bf16 and optimizer_offload=true, ", 0), 0u)
      << advice(48);
  EXPECT_EQ(advice(80).find(" devices: "), 1u) << advice(80);
}

TEST(Search, UpsetsReallyTurnTheOrderRound) {
  const Place p = bloom_place();
  const Workload w = bloom_work(72, 14336, 64);
  const Layout first = bloom_layout(8, 4, 12, 2), second = bloom_layout(8, 8, 6, 4);
  const auto list = upsets(p.cluster, p.stack, w, first, second);
  ASSERT_FALSE(list.empty());
  Stack changed = p.stack;
  const double factor = list[0].factor * (list[0].factor > 1 ? 1.001 : 0.999);
  changed.constants.set(list[0].constant, p.stack.constants[list[0].constant] * factor);
  EXPECT_LT(estimate(p.cluster, changed, w, second).seconds,
            estimate(p.cluster, changed, w, first).seconds);
}

// What is proposed for a deterministic run leaves it one.
TEST(Search, WhatWouldFitKeepsItDeterministic) {
  const Place p = place("h200", "stretto");
  Workload w{shape(80, 8192, 64, 50368), 2048, 2048, Precision::amp_bf16};
  Constraints limits;
  limits.devices = 2;
  const auto proposed = [&] {
    const Plan plan = make_plan(p.cluster, p.stack, w, limits);
    return nearest_fit(p.cluster, p.stack, w, plan.nearest.value().layout).value().text;
  };
  EXPECT_NE(proposed().find("gradient_dtype=bf16"), std::string::npos) << proposed();
  w.deterministic = true;
  EXPECT_EQ(proposed().find("gradient_dtype=bf16"), std::string::npos) << proposed();
}

TEST(Search, HybridShardingTradesMemoryForTraffic) {
  const Place p = place("a100-80", "stretto");
  Layout whole, hybrid;
  whole.dp = hybrid.dp = 64;
  whole.zero = hybrid.zero = 3;
  hybrid.zero_group = 8;
  const Workload w = seven_b();
  const Estimate a = estimate(p.cluster, p.stack, w, whole);
  const Estimate b = estimate(p.cluster, p.stack, w, hybrid);
  EXPECT_LT(b.dp_exposed + b.hidden_comm, a.dp_exposed + a.hidden_comm);
  EXPECT_GT(own_memory(p.cluster, p.stack, w, hybrid).needed(),
            own_memory(p.cluster, p.stack, w, whole).needed());
}

TEST(Search, BadModelsNameTheField) {
  const Place p = place("h100", "stretto");
  Workload w = seven_b();
  w.model.layers = 1000000000;
  try {
    make_plan(p.cluster, p.stack, w, {});
    FAIL() << "accepted 10^9 layers";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::bad_config);
    EXPECT_NE(std::string(e.what()).find("model.layers"), std::string::npos);
  }
  w = seven_b();
  w.model.heads = 33;
  EXPECT_THROW(make_plan(p.cluster, p.stack, w, {}), Error);
  w = seven_b();
  w.global_batch = 0;
  EXPECT_THROW(make_plan(p.cluster, p.stack, w, {}), Error);
}

}  // namespace
}  // namespace stretto::plan
