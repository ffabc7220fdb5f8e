// Our own runs as rows for a calibration, and the candidates for the next ones.
#pragma once

#include <string>
#include <vector>

#include "plan/calibrate.h"

namespace stretto::plan {

// Runs of other programs, from a .csv file or from every such file of a directory in the order of
// their names (no such file is no mistake). Columns: layers, hidden, heads, vocab, seq_len,
// global_batch, dp, tp, pp, micro_batch, seconds. Optional columns: id, model, ffn (default 4 x
// hidden), zero, recompute, precision (default `unsaid`), gradient_dtype, memory_bytes. Others are
// ignored. Throws Error naming file, line and column.
std::vector<Observation> read_records(const std::string& path, Precision unsaid);
std::vector<Observation> read_record_table(std::string_view csv, const std::string& name,
                                           Precision unsaid);

// Layouts of the observed models, on as many devices, that fit and have not been run.
std::vector<Observation> candidate_runs(const Cluster& cluster, const Stack& stack,
                                        const std::vector<Observation>& rows);

}  // namespace stretto::plan
