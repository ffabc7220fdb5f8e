// Records as the tables that people know.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/record.h"
#include "reference/rows.h"

namespace stretto {

enum class TableStyle { mpt, mosaicgpt, bloom, fugaku, predicted, full };
TableStyle style_from_name(std::string_view name);  // throws Error (usage) listing the names

struct ResultTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;

  std::string csv() const;       // every field safe for spreadsheets
  std::string markdown() const;  // every cell safe for Markdown
};

// Rows sorted as published: device, then larger models, longer sequences, more devices and larger
// batches first. Runs that failed keep their row; the status stands where the figures would.
// Where rows cannot be told apart by the columns of a style, or differ in a layout for which it has
// none, a last column names them (Label).
// With `published`, the nearest published row and its figures follow each of ours.
ResultTable make_table(TableStyle style, std::vector<RunRecord> records,
                       const std::vector<ReferenceRow>* published = nullptr);

// One record per configuration, launcher, build, machine and first step (and reason, where it was
// rejected): the newest that succeeded, else the newest.
std::vector<RunRecord> without_repeats(std::vector<RunRecord> records);

// Those of a file or of all files below a directory, without repeats. Error (no_input) where there
// are none.
std::vector<RunRecord> load_records(Fs& fs, const std::string& path);

// Why a record must not be compared with most of the others: "other build", "other machine", "other
// clock state" (a core was measured 5 % off the median of them); empty for those that may. One text
// per record.
std::vector<std::string> incomparable(const std::vector<RunRecord>& records);

}  // namespace stretto
