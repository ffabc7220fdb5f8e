// The published tables as typed rows. Values are as published; blank means "not stated".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "account/model_shape.h"
#include "account/run_shape.h"
#include "reference/csv.h"

namespace stretto {

// A published number with the digits it was printed with.
struct Published {
  std::string text;
  double value = 0;
  // Half a unit of the last printed digit, half the width of its rounding interval.
  double half = 0;
};

// Throws Error (bad_data) unless the text is one plain finite decimal number.
Published parse_published(std::string_view text, std::string_view place);

struct ReferenceRow {
  std::string file;  // mpt, mosaicgpt, bloom, fugaku
  int64_t line = 0;  // of the file
  std::string id, section, table, model, size_label, hardware, unit;
  std::string precision, mp_mode, sharding, flops_basis, date;
  std::string status;  // ok, OOM, OOM_after_first_epoch, fail, hang, not_run
  std::string repeat_of, anomaly, suggested_fix;
  std::string tflops_raw;  // the cell as printed; MPT's is in units of 1e14 FLOP/s
  std::optional<int64_t> params, layers, hidden, heads, vocab, seq_len;
  std::optional<int64_t> gpus, nodes, dp, tp, pp;
  std::optional<int64_t> micro_batch, grad_accum, global_batch, global_batch_tokens, zero_stage;
  std::optional<bool> activation_checkpointing;
  std::optional<Published> freq_ghz, memory, sec_per_iter, samples_per_sec;
  std::optional<Published> tokens_per_sec, tokens_per_sec_per_gpu;
  std::optional<Published> tflops;  // per GPU, per node for Fugaku; as its authors counted
  std::optional<Published> mfu_star, mfu, hfu_star, hfu, aggregate_pflops;

  // GPUs, or nodes if the table counts nodes without GPUs; 0 if not stated.
  int64_t devices() const;
  // The sequence length also gives the positions, as in these programs. Blank sizes are 0.
  ModelShape shape() const;
  Checkpointing checkpointing() const;
};

// The rows of one table; `file` is its name without .csv. Throws Error (bad_data) naming file, line
// and column for a missing column or a bad cell.
std::vector<ReferenceRow> reference_rows(const CsvTable& table);

// The row with the fixes "column=value; ..." of `suggested_fix` applied.
ReferenceRow with_suggested_fix(const ReferenceRow& row);

}  // namespace stretto
