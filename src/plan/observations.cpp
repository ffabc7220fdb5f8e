#include "plan/observations.h"

#include <array>
#include <utility>

#include "plan/cost.h"
#include "plan/memory.h"

namespace stretto::plan {
namespace {

// Rows that no steady state explains: each has twins that look normal, or contradicts its own
// table. All figures include them; a second set of figures leaves them out.
constexpr std::array<std::pair<const char*, const char*>, 15> kOdd = {{
    {"bloom-060", "the same settings as the next row, 9 % slower"},
    {"bloom-085", "12 heads per rank x 4 fuse their softmax; slow as if not, as micro-batch 2 is"},
    {"bloom-087", "1568 sequences take as long as 2048"},
    {"mpt-003", "30b at 8192 tokens: slow here and on A100, one micro-batch from full memory"},
    {"mpt-050", "760m at 2048 tokens: 8 % slower per device than the same on 16 and on 32 devices"},
    {"mpt-062", "30b at 8192 tokens: slow here and on H100, one micro-batch from full memory"},
    {"mpt-122", "70b on 64 x A100-40: as if nothing overlapped"},
    {"mpt-125", "13b on 8 x A100-40: as if nothing overlapped"},
    {"mpt-126", "13b on 8 x A100-40: as if nothing overlapped"},
    {"mpt-131", "13b on 8 x A100-40: as if nothing overlapped"},
    {"mpt-132", "13b on 8 x A100-40: as if nothing overlapped"},
    {"mpt-133", "13b on 8 x A100-40: as if nothing overlapped"},
    {"mosaicgpt-010", "13 % slower than half of the run with twice the batch"},
    {"fugaku30b-001", "one iteration beside a full memory, 45 % slow, then out of memory"},
    {"fugaku30b-011", "the same topology was 13 % faster in April"},
}};

std::string number(const std::optional<int64_t>& value) {
  return value ? std::to_string(*value) : "";
}

// Rows before 02-21 were made with the older program, whose fused softmax needs a multiple of 4,
// which all of them have. On that day the runs moved to the newer program (docs/planner.md).
void bloom_facts(const ReferenceRow& row, Observation& o) {
  o.comparison = row.table;
  o.work.precision = Precision::amp_fp16;
  if (o.work.model.heads == 0) o.work.model.heads = 64;  // "all NHEADS=64 (above too)"
  o.layout.zero = static_cast<int>(row.zero_stage.value_or(1));
  o.layout.recompute = Checkpointing::full;
  o.before_repair = row.date < "02-25";
  o.softmax_fused = row.date < "02-21";
  if (row.sec_per_iter) o.seconds = row.sec_per_iter->value;
  if (row.memory) o.memory = row.memory->value * 0x1p30;
  if (row.id == "bloom-057") o.memory = 0;  // 65 GB beside 56 at twice the micro-batch: mistyped
  o.keys = {{"hidden", number(row.hidden)}, {"tp", number(row.tp)}, {"pp", number(row.pp)}};
}

void fsdp_facts(const ReferenceRow& row, Observation& o) {
  o.layout = {};
  o.layout.dp = row.devices();
  o.layout.micro_batch = row.micro_batch.value_or(1);
  o.layout.zero = 3;
  o.layout.recompute = row.checkpointing();
  o.work.precision = row.precision == "bf16"      ? Precision::bf16
                     : row.precision == "amp_fp8" ? Precision::amp_fp8
                                                  : Precision::amp_bf16;
  // PURE rows were run with an older PyTorch. The layers of fp8 are separate autograd functions,
  // which save their tensors only after their product. Neither can stop recomputation early.
  o.whole_recompute = row.mp_mode == "PURE" || row.precision == "amp_fp8";
  if (row.tokens_per_sec && row.tokens_per_sec->value > 0) {
    o.seconds =
        static_cast<double>(row.global_batch_tokens.value_or(0)) / row.tokens_per_sec->value;
  }
  // The text with the MosaicGPT table says that every network used checkpointing. The speeds show
  // that those of 760m and below did not.
  if (row.file == "mosaicgpt" && o.work.model.hidden <= 1536) {
    o.layout.recompute = Checkpointing::none;
  }
  o.comparison = row.size_label + " on " + std::to_string(row.devices());
  if (row.file == "mpt") o.comparison = row.size_label;
  o.keys = {{"model", row.size_label}, {"gpus", std::to_string(row.devices())}};
}

void fugaku_facts(const ReferenceRow& row, Observation& o) {
  o.comparison = row.table;
  o.work.precision = Precision::fp32;
  if (o.work.model.vocab == 0) o.work.model.vocab = 50304;
  o.layout.recompute = row.checkpointing();
  o.layout.dp = row.devices() / (o.layout.tp * o.layout.pp);
  o.boost_clock = row.freq_ghz && row.freq_ghz->value > 2.1;
  if (row.sec_per_iter) o.seconds = row.sec_per_iter->value;
  if (row.memory) o.memory = row.memory->value * 0x1p20;
  o.keys = {{"nodes", number(row.nodes)}};
}

Observation observation_of(const ReferenceRow& row) {
  Observation o;
  o.id = row.id;
  o.repeat = !row.repeat_of.empty();
  o.same_as = o.repeat ? row.repeat_of : row.id;
  o.work.model = row.shape();
  o.work.model.ffn = 4 * o.work.model.hidden;
  o.work.seq_len = row.seq_len.value_or(0);
  o.work.global_batch = row.global_batch.value_or(0);
  o.layout.dp = row.dp.value_or(1);
  o.layout.tp = row.tp.value_or(1);
  o.layout.pp = row.pp.value_or(1);
  o.layout.micro_batch = row.micro_batch.value_or(1);
  o.out_of_memory = row.status == "OOM" || row.status == "OOM_after_first_epoch";
  if (row.file == "bloom") bloom_facts(row, o);
  if (row.file == "mpt" || row.file == "mosaicgpt") fsdp_facts(row, o);
  if (row.file == "fugaku") fugaku_facts(row, o);
  if (row.anomaly.rfind("outlier", 0) == 0) o.anomaly = row.anomaly;
  if (row.file == "fugaku" && row.anomaly.rfind("structure", 0) != 0) o.anomaly = row.anomaly;
  for (const auto& [id, reason] : kOdd) {
    if (o.id == id) o.anomaly = reason;
  }
  return o;
}

bool belongs(const ReferenceRow& row, const std::string& file, const std::string& part) {
  if (row.file != file || !row.layers || row.status == "not_run") return false;
  if (file == "fugaku") return row.size_label == part || row.model == "gpt-" + part;
  return part.empty() || row.hardware == part;
}

}  // namespace

Setting setting_of(const Cluster& cluster, const Stack& stack, const Constants& constants,
                   const Observation& row) {
  Setting s{row.cluster ? *row.cluster : cluster, stack, 1};
  s.stack.constants = constants;
  if (row.softmax_fused) s.stack.fused_softmax = FusedSoftmax::always;
  if (row.whole_recompute) s.stack.recompute_stops_early = false;
  if (row.before_repair) s.factor = constants[Constant::host];
  if (row.boost_clock) {  // everything on the cores gets faster, the network does not
    const double boost = constants[Constant::boost];
    s.cluster.matrix_flops *= boost;
    s.cluster.vector_flops *= boost;
    s.cluster.memory_bandwidth *= boost;
    s.stack.constants.set(Constant::gap, constants[Constant::gap] / boost);
  }
  return s;
}

double predicted_seconds(const Cluster& cluster, const Stack& stack, const Constants& constants,
                         const Observation& row) {
  const Setting s = setting_of(cluster, stack, constants, row);
  return s.factor * estimate(s.cluster, s.stack, row.work, row.layout).seconds;
}

double predicted_memory(const Cluster& cluster, const Stack& stack, const Constants& constants,
                        const Observation& row) {
  const Setting s = setting_of(cluster, stack, constants, row);
  return estimate_memory(s.cluster, s.stack, row.work, row.layout).reserved();
}

std::vector<Observation> published_rows(const std::vector<ReferenceRow>& rows,
                                        const std::string& file, const std::string& part) {
  std::vector<Observation> out;
  for (const ReferenceRow& row : rows) {
    if (belongs(row, file, part)) out.push_back(observation_of(with_suggested_fix(row)));
  }
  return out;
}

}  // namespace stretto::plan
