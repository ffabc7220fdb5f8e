#include "bench/styles.h"

#include <fmt/format.h>

#include <cmath>

#include "base/units.h"
#include "bench/launcher.h"
#include "bench/published.h"

namespace stretto {
namespace {

using Columns = std::vector<TableColumn>;
using F = const RowFacts&;

std::string whole(int64_t value) { return fmt::format("{}", value); }
std::string whole(std::optional<int64_t> value) { return value ? whole(*value) : ""; }
std::string truncated(double value) { return fmt::format("{:.0f}", std::trunc(value)); }
std::string truth(bool value) { return value ? "True" : "False"; }
std::string fixed(double value, int digits) { return fmt::format("{:.{}f}", value, digits); }

// Two decimals, as published; smaller numbers keep three digits.
std::string hundredths(double value) {
  return value >= 0.995 ? fixed(value, 2) : fmt::format("{:.3g}", value);
}

// 48.2 for 48.20: at most two decimals without zeros at the end, as published.
std::string percent(std::optional<double> fraction) {
  if (!fraction) return "";
  return fmt::format("{}", std::round(*fraction * 1e4) / 1e2);
}

std::string short_name(const ModelShape& model) {
  return model.name.starts_with("mpt-") ? model.name.substr(4) : model.name;
}

std::string sharding(const Config& c) {
  constexpr const char* kNames[] = {"NO_SHARD", "ZeRO-1", "SHARD_GRAD_OP", "FULL_SHARD"};
  return kNames[static_cast<size_t>(std::clamp(zero_in_effect(c), 0, 3))];
}

std::optional<double> mfu(F f, Convention convention, double Utilization::*figure) {
  const auto& u = f.figures.of(convention).utilization;
  return u ? std::optional((*u).*figure) : std::nullopt;
}

// In units of 1e14 FLOP/s per device, as published.
std::string mpt_tflop(F f) { return fixed(f.figures.of(Convention::mpt).model_flops / 1e14, 6); }

// In the published tables True means that the whole forward pass is repeated, which HFU counts.
std::string checkpoints(const Config& c) {
  const Checkpointing kind = c.activation_checkpointing;
  const bool published = kind == Checkpointing::none || kind == Checkpointing::full;
  return published ? truth(kind == Checkpointing::full) : name_of(kind);
}
std::string mp_mode(const Config& c) { return c.precision == Precision::bf16 ? "PURE" : "DEFAULT"; }

Columns mpt_columns() {
  return {{"Model", false, [](F f) { return short_name(f.record.config.model); }},
          {"SeqLen (T)", false, [](F f) { return whole(f.record.config.seq_len); }},
          {"# GPUs", false, [](F f) { return whole(f.record.devices()); }},
          {"GPU", false, [](F f) { return f.record.device; }},
          {"MFU", true, [](F f) { return percent(mfu(f, Convention::mpt, &Utilization::mfu)); }},
          {"HFU", true, [](F f) { return percent(mfu(f, Convention::mpt, &Utilization::hfu)); }},
          {"Model TFLOP", true, mpt_tflop},
          {"MicroBatchSize", false, [](F f) { return whole(f.record.config.micro_batch); }},
          {"GradAccum", false, [](F f) { return whole(grad_accumulation(f.record.config)); }},
          {"GlobalBatchSize", false, [](F f) { return whole(f.record.config.global_batch); }},
          {"Throughput (S/s)", true, [](F f) { return truncated(f.figures.samples_per_second); }},
          {"Throughput (T/s)", true, [](F f) { return truncated(f.figures.tokens_per_second); }},
          {"Throughput (T/s/GPU)", true,
           [](F f) { return truncated(f.figures.tokens_per_second_per_device); }},
          {"GlobalBatchSize (T)", false, [](F f) { return whole(batch_tokens(f.record.config)); }},
          {"Precision", false, [](F f) { return std::string(name_of(f.record.config.precision)); }},
          {"MP Mode", false, [](F f) { return mp_mode(f.record.config); }},
          {"Sharding Strategy", false, [](F f) { return sharding(f.record.config); }},
          {"Activation Checkpointing", false, [](F f) { return checkpoints(f.record.config); }},
          {"Activation CPUOffload", false,
           [](F f) { return truth(f.record.config.activation_offload); }},
          {"NumParams", false, [](F f) { return whole(parameters_of(f.record.config)); }}};
}

std::string share(F f, double Utilization::*figure) {
  const auto value = mfu(f, Convention::mosaicgpt, figure);
  return value ? fixed(*value, 4) : "";
}

Columns mosaicgpt_columns() {
  return {{"Model", false, [](F f) { return f.record.config.model.name; }},
          {"SeqLen (T)", false, [](F f) { return whole(f.record.config.seq_len); }},
          {"GlobalBatchSize (T)", false, [](F f) { return whole(batch_tokens(f.record.config)); }},
          {"GlobalBatchSize (S)", false, [](F f) { return whole(f.record.config.global_batch); }},
          {"GPUType", false,
           [](F f) { return fmt::format("{}x{}", f.record.devices(), f.record.device); }},
          {"Throughput (T/s)", true, [](F f) { return fixed(f.figures.tokens_per_second, 2); }},
          {"Throughput (S/s)", true, [](F f) { return fixed(f.figures.samples_per_second, 4); }},
          {"MFU*", true, [](F f) { return share(f, &Utilization::mfu_star); }},
          {"MFU", true, [](F f) { return share(f, &Utilization::mfu); }},
          {"HFU*", true, [](F f) { return share(f, &Utilization::hfu_star); }},
          {"HFU", true, [](F f) { return share(f, &Utilization::hfu); }},
          {"GPUThroughput (T/s/GPU)", true,
           [](F f) { return fixed(f.figures.tokens_per_second_per_device, 4); }},
          {"ParamCount", false, [](F f) { return whole(parameters_of(f.record.config)); }},
          {"MicroBatchSize", false, [](F f) { return whole(f.record.config.micro_batch); }},
          {"GradAccum", false, [](F f) { return whole(grad_accumulation(f.record.config)); }},
          {"Precision", false, [](F f) { return std::string(name_of(f.record.config.precision)); }},
          {"MP Mode", false, [](F f) { return mp_mode(f.record.config); }},
          {"NumGPUs", false, [](F f) { return whole(f.record.devices()); }}};
}

std::string notes(F f) {
  std::string text = f.record.status == RunStatus::ok ? "" : name_of(f.record.status);
  const std::string busy = f.record.disturbed() ? describe(f.record.cores) : "";
  for (const std::string& more : {f.record.reason, f.incomparable, busy}) {
    if (!more.empty()) text += (text.empty() ? "" : "; ") + more;
  }
  return text;
}

std::string size_label(const Config& config) {
  const std::optional<int64_t> parameters = parameters_of(config);
  if (!parameters) return "";
  const auto n = static_cast<double>(*parameters);
  return n >= 1e9 ? fmt::format("{:.0f}B", n / 1e9) : fmt::format("{:.3g}M", n / 1e6);
}

double megatron_tflops(F f) { return f.figures.of(Convention::megatron).hardware_flops / 1e12; }

void add_topology(Columns& columns) {
  const Columns more = {{"DP", false, [](F f) { return whole(f.record.config.parallel.dp); }},
                        {"TP", false, [](F f) { return whole(f.record.config.parallel.tp); }},
                        {"PP", false, [](F f) { return whole(f.record.config.parallel.pp); }},
                        {"MBS", false, [](F f) { return whole(f.record.config.micro_batch); }},
                        {"GBS", false, [](F f) { return whole(f.record.config.global_batch); }}};
  columns.insert(columns.end(), more.begin(), more.end());
}

std::string memory_cell(F f, double unit, const char* suffix) {
  const RunMemory& m = f.record.memory;
  const bool measured = m.grown_rank > 0;
  const auto bytes = static_cast<double>(measured ? m.grown_rank : m.predicted_rank);
  if (bytes <= 0) return "";
  return fmt::format("{}{}{}", format_digits(bytes / unit, 3), suffix,
                     measured ? "" : " (predicted)");
}

Columns bloom_columns() {
  Columns columns = {{"Nodes", false, [](F f) { return whole(f.record.nodes); }},
                     {"Size", false, [](F f) { return size_label(f.record.config); }}};
  add_topology(columns);
  columns.push_back({"Mem", false, [](F f) { return memory_cell(f, 1e9, "GB"); }});
  columns.push_back({"Sec/it", true, [](F f) { return hundredths(f.figures.step.median); }});
  columns.push_back({"TFLOPs", true, [](F f) { return hundredths(megatron_tflops(f)); }});
  columns.push_back({"Notes", false, notes});
  return columns;
}

Columns fugaku_columns() {
  Columns columns = {{"Nodes", false, [](F f) { return whole(f.record.nodes); }}};
  add_topology(columns);
  columns.push_back({"AC", false, [](F f) { return checkpoints(f.record.config); }});
  columns.push_back({"Mem", false, [](F f) { return memory_cell(f, 1 << 20, ""); }});
  columns.push_back({"Sec/it", true, [](F f) { return hundredths(f.figures.step.median); }});
  columns.push_back({"TFLOPs", true, [](F f) { return hundredths(megatron_tflops(f)); }});
  columns.push_back({"Est. Aggr. PetaFLOPs", true, [](F f) {  // by 1024, as published
                       const auto n = static_cast<double>(f.record.devices());
                       return fmt::format("{:.3g}", megatron_tflops(f) * n / 1024);
                     }});
  columns.push_back({"Notes", false, notes});
  return columns;
}

std::string predicted_seconds(F f) {
  const double seconds = foreseen_seconds(f.record, f.predicted);
  if (seconds <= 0) return "";
  return fmt::format("{:.6g}{}", seconds, f.predicted.known ? " (known)" : "");
}

// Predicted over measured, minus one.
std::string prediction_error(F f) {
  const double seconds = foreseen_seconds(f.record, f.predicted);
  if (seconds <= 0 || f.predicted.known) return "";
  return fmt::format("{:.1f}", 100 * (seconds / f.figures.step.median - 1));
}

std::string known_bytes(int64_t bytes) { return bytes > 0 ? whole(bytes) : ""; }

Columns full_columns() {
  Columns columns = {{"Label", false, [](F f) { return f.record.label; }},
                     {"Status", false, [](F f) { return std::string(name_of(f.record.status)); }}};
  for (TableColumn& column : mpt_columns()) columns.push_back(std::move(column));
  add_topology(columns);
  const Columns more = {
      {"ZeRO", false, [](F f) { return whole(zero_in_effect(f.record.config)); }},
      {"Sec/it", true, [](F f) { return fmt::format("{:.6g}", f.figures.step.median); }},
      {"Sec/it low", true, [](F f) { return fmt::format("{:.6g}", f.figures.step.low); }},
      {"Sec/it high", true, [](F f) { return fmt::format("{:.6g}", f.figures.step.high); }},
      {"Sec/it predicted", false, predicted_seconds},
      {"Error %", true, prediction_error},
      {"Steps", false, [](F f) { return whole(f.figures.step.count); }},
      {"Warm-up", false, [](F f) { return whole(f.record.warmup); }},
      {"GEMM %", true, [](F f) { return percent(f.figures.gemm_fraction); }},
      {"Mem predicted/rank", false,
       [](F f) { return known_bytes(f.record.memory.predicted_rank); }},
      {"Mem predicted", false, [](F f) { return known_bytes(f.record.memory.predicted_total); }},
      {"Mem measured/rank", false, [](F f) { return known_bytes(f.record.memory.grown_rank); }},
      {"Mem measured", false, [](F f) { return known_bytes(f.record.memory.grown_total); }},
      {"Loss", true, [](F f) { return fmt::format("{:.4f}", f.figures.loss_last); }},
      {"Commit", false, [](F f) { return f.record.build.commit; }},
      {"Notes", false, notes},
      {"Ranks by", false, [](F f) { return f.record.launcher; }},
      {"Command", false, [](F f) { return command_line(f.record); }}};
  columns.insert(columns.end(), more.begin(), more.end());
  return columns;
}

// Predictions, for which the published styles have no column.
Columns predicted_columns() {
  Columns columns;
  for (const char* wanted : {"Label", "Model", "SeqLen (T)", "DP", "TP", "PP", "ZeRO",
                             "Sec/it predicted", "Sec/it", "Error %", "Mem measured/rank"}) {
    for (TableColumn& column : full_columns()) {
      if (std::string_view(column.name) == wanted) columns.push_back(std::move(column));
    }
  }
  columns.insert(columns.end() - 1,
                 {"Process predicted/rank", false, [](F f) {
                    return known_bytes(std::llround(foreseen_memory(f.record, f.predicted)));
                  }});
  return columns;
}

void add_published(Columns& columns, const std::vector<ReferenceRow>& rows) {
  const auto of = [&rows](auto text) {
    return [&rows, text](F f) {
      const ReferenceRow* row = nearest_row(f.record, rows);
      return row == nullptr ? std::string() : text(*row);
    };
  };
  const auto printed = [](const std::optional<Published>& cell) { return cell ? cell->text : ""; };
  columns.push_back({"Nearest published", false, of([](const ReferenceRow& r) {
                       return fmt::format("{} {} T={} on {} {}", r.id, r.model,
                                          r.seq_len.value_or(0), r.devices(), r.hardware);
                     })});
  columns.push_back({"Published MFU", false, of([](const ReferenceRow& r) {
                       return r.mfu ? percent(r.mfu->value) : std::string();
                     })});
  columns.push_back({"Published T/s/device", false, of([printed](const ReferenceRow& r) {
                       return printed(r.tokens_per_sec_per_gpu);
                     })});
  columns.push_back({"Published TFLOPs", false,
                     of([printed](const ReferenceRow& r) { return printed(r.tflops); })});
}

}  // namespace

Columns style_columns(TableStyle style, const std::vector<ReferenceRow>* published) {
  Columns columns;
  switch (style) {
    case TableStyle::mpt:
      columns = mpt_columns();
      break;
    case TableStyle::mosaicgpt:
      columns = mosaicgpt_columns();
      break;
    case TableStyle::bloom:
      columns = bloom_columns();
      break;
    case TableStyle::fugaku:
      columns = fugaku_columns();
      break;
    case TableStyle::predicted:
      columns = predicted_columns();
      break;
    case TableStyle::full:
      columns = full_columns();
      break;
  }
  if (published != nullptr) add_published(columns, *published);
  return columns;
}

}  // namespace stretto
