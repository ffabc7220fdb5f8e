// Rules about how the model is cut over ranks.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "account/rank_order.h"
#include "base/units.h"
#include "config/rule_set.h"
#include "config/schema.h"

namespace stretto {
namespace {

// Degrees that suit all that tensor parallelism cuts of a layer, so that one fix is enough.
std::string degrees_near(const Config& c) {
  int64_t common = std::gcd(std::gcd(c.model.heads, c.model.hidden), c.model.ffn);
  if (c.parallel.sequence_parallel) common = std::gcd(common, c.seq_len);
  return "use " + divisors_near(common, c.parallel.tp);
}

bool cuts_heads(const Config& c) { return c.model.heads % c.parallel.tp == 0; }

void heads_tp(const Config& c, Report& report) {
  if (cuts_heads(c)) return;
  report.add("parallel.tp", "does not divide " + shown(c, "model.heads"), degrees_near(c));
}

// A degree that cannot cut the heads has to change, and with it what else it does not divide.
void hidden_tp(const Config& c, Report& report) {
  if (!cuts_heads(c) || c.model.hidden % c.parallel.tp == 0) return;
  report.add("parallel.tp", "does not divide " + shown(c, "model.hidden"), degrees_near(c));
}

void ffn_tp(const Config& c, Report& report) {
  if (!cuts_heads(c) || c.model.ffn % c.parallel.tp == 0) return;
  report.add("parallel.tp", "does not divide " + shown(c, "model.ffn"),
             fmt::format("{}, or model.ffn={}", degrees_near(c),
                         multiples_near(c.model.ffn, c.parallel.tp)));
}

void sequence_tp(const Config& c, Report& report) {
  const int64_t tp = c.parallel.tp, shorter = c.seq_len / tp * tp;
  if (!cuts_heads(c) || !c.parallel.sequence_parallel || c.seq_len % tp == 0) return;
  // Suggests only lengths for which the model has positions.
  std::string lengths;
  if (shorter + tp <= c.model.positions) {
    lengths = fmt::format("use seq_len={}, or ", multiples_near(c.seq_len, tp));
  } else if (shorter > 0) {
    lengths = fmt::format("use seq_len={}, or ", shorter);
  }
  report.add("parallel.tp",
             "does not divide " + shown(c, "seq_len") + ", which sequence parallelism splits",
             lengths.empty() ? "set parallel.sequence_parallel=false"
                             : lengths + "parallel.sequence_parallel=false");
}

int64_t stages(const Config& c) { return c.parallel.pp * c.parallel.interleave; }

void layers_pp(const Config& c, Report& report) {
  if (c.model.layers >= stages(c)) return;
  const std::string what =
      fmt::format("has fewer layers than the {} stages of {} and {}", stages(c),
                  shown(c, "parallel.pp"), shown(c, "parallel.interleave"));
  report.add("model.layers", what,
             fmt::format("use pp x interleave of at most {}", c.model.layers));
}

void even_stages(const Config& c, Report& report) {
  const bool listed = !c.parallel.partition.listed.empty();
  if (listed || c.model.layers < stages(c)) return;
  // With "transformer+embedding" the embedding and the head count as a layer each if every stage
  // then has at least two: see even_partition.
  const bool ends_count = c.parallel.partition.ends_count && c.model.layers + 2 >= 2 * stages(c);
  const int64_t ends = ends_count ? 2 : 0, items = c.model.layers + ends;
  if (items % stages(c) == 0) return;
  const int64_t fewer = items / stages(c) * stages(c) - ends;
  report.add("model.layers",
             fmt::format("{}is not a multiple of the {} stages of {} and {}; the fullest stage "
                         "sets the pace",
                         ends_count ? "with embedding and head " : "", stages(c),
                         shown(c, "parallel.pp"), shown(c, "parallel.interleave")),
             fmt::format("use {} or {} layers", fewer, fewer + stages(c)));
}

void interleave_schedule(const Config& c, Report& report) {
  if (c.parallel.interleave == 1 || c.parallel.schedule == PipelineSchedule::interleaved) return;
  report.add("parallel.interleave",
             "needs the interleaved schedule, not " + shown(c, "parallel.schedule"),
             "set parallel.schedule=interleaved, or parallel.interleave=1");
}

void interleaved_chunks(const Config& c, Report& report) {
  if (c.parallel.schedule != PipelineSchedule::interleaved) return;
  if (c.parallel.interleave > 1 && c.parallel.pp > 1) return;
  report.add("parallel.schedule",
             fmt::format("needs several chunks on several stages, not {} with {}",
                         shown(c, "parallel.interleave"), shown(c, "parallel.pp")),
             "set parallel.interleave=2 and parallel.pp=2 or more, or parallel.schedule=1f1b");
}

void zero_pp(const Config& c, Report& report) {
  if (c.parallel.zero < 2 || c.parallel.pp == 1) return;
  report.add(
      "parallel.zero",
      "shards what each micro-batch of a pipeline needs again, with " + shown(c, "parallel.pp"),
      "use parallel.zero=1 with a pipeline, or parallel.pp=1");
}

void zero_dp(const Config& c, Report& report) {
  if (c.parallel.zero == 0 || c.parallel.dp > 1) return;
  report.add("parallel.zero", "has nothing to shard with " + shown(c, "parallel.dp"),
             "set parallel.zero=0, or parallel.dp=2 or more");
}

void zero_group(const Config& c, Report& report) {
  const int64_t group = c.parallel.zero_group;
  if (group == 0) return;
  if (c.parallel.zero == 0) {
    report.add("parallel.zero_group", "needs sharding, but this is " + shown(c, "parallel.zero"),
               "set parallel.zero=3, or parallel.zero_group=0");
  } else if (c.parallel.dp % group != 0) {
    report.add("parallel.zero_group", "does not divide " + shown(c, "parallel.dp"),
               "use " + divisors_near(c.parallel.dp, group) + ", or 0 for the whole axis");
  } else if (c.deterministic && group != c.parallel.dp) {
    report.add("parallel.zero_group",
               "adds up gradients in an order that depends on the groups, but this is " +
                   shown(c, "deterministic"),
               "set parallel.zero_group=0, or deterministic=false");
  }
}

void reduce_dtype(const Config& c, Report& report) {
  if (c.parallel.reduce_dtype == DType::f32 || !c.deterministic) return;
  report.add("parallel.reduce_dtype",
             "rounds sums that depend on parallel.dp, but this is " + shown(c, "deterministic"),
             "set parallel.reduce_dtype=f32, or deterministic=false");
}

// A deterministic run adds up the gradients micro-batch by micro-batch. Schedules that begin the
// backward pass of a second micro-batch before the first is complete, in a layer or in a head with
// its own matrix, would mix them up.
void deterministic_schedule(const Config& c, Report& report) {
  const PipelineSchedule schedule = c.parallel.schedule;
  const bool mixes = schedule == PipelineSchedule::zero_bubble ||
                     (schedule == PipelineSchedule::gpipe && !c.model.tied_embedding);
  if (!c.deterministic || c.parallel.pp == 1 || !mixes) return;
  report.add("parallel.schedule",
             "computes gradients of several micro-batches at once, but this is " +
                 shown(c, "deterministic"),
             "set parallel.schedule=1f1b, or deterministic=false");
}

void partition(const Config& c, Report& report) {
  const std::vector<int64_t>& list = c.parallel.partition.listed;
  if (list.empty() && c.parallel.partition.unknown.empty()) return;
  const std::string fix =
      fmt::format("use transformer, transformer+embedding, or {} of at least 1, {} in all",
                  counted(stages(c), "number"), counted(c.model.layers, "layer"));
  if (list.empty()) {
    report.add("parallel.partition", "is neither a known word nor a list of layers", fix);
    return;
  }
  if (static_cast<int64_t>(list.size()) != stages(c)) {
    report.add("parallel.partition",
               fmt::format("lists {} stages, but {} and {} make {}", list.size(),
                           shown(c, "parallel.pp"), shown(c, "parallel.interleave"), stages(c)),
               fix);
    return;
  }
  int64_t sum = 0;  // bounded: entries out of range end the loop
  for (const int64_t layers : list) {
    if (layers < 1 || layers > c.model.layers) {
      report.add("parallel.partition", fmt::format("gives a stage {} layers", layers), fix);
      return;
    }
    sum += layers;
  }
  if (sum != c.model.layers) {
    report.add("parallel.partition",
               fmt::format("sums to {}, not to {}", sum, shown(c, "model.layers")), fix);
  }
}

void rank_order(const Config& c, Report& report) {
  if (parse_rank_order(c.parallel.order)) return;
  report.add("parallel.order", "does not name each of tp, dp and pp once",
             "use tp,dp,pp (tp ranks next to each other)");
}

constexpr Rule kRules[] = {
    {"heads-tp", Severity::error, heads_tp},
    {"hidden-tp", Severity::error, hidden_tp},
    {"ffn-tp", Severity::error, ffn_tp},
    {"sequence-tp", Severity::error, sequence_tp},
    {"layers-pp", Severity::error, layers_pp},
    {"interleave-schedule", Severity::error, interleave_schedule},
    {"interleaved-chunks", Severity::error, interleaved_chunks},
    {"zero-pp", Severity::error, zero_pp},
    {"zero-group", Severity::error, zero_group},
    {"reduce-dtype", Severity::error, reduce_dtype},
    {"deterministic-schedule", Severity::error, deterministic_schedule},
    {"partition", Severity::error, partition},
    {"rank-order", Severity::error, rank_order},
    {"even-stages", Severity::advice, even_stages},
    {"zero-dp", Severity::advice, zero_dp},
};

}  // namespace

std::span<const Rule> parallel_rules() { return kRules; }

}  // namespace stretto
