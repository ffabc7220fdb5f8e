// Records as tables in well-known formats.
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

// Rows are sorted as published: by device, then larger models, longer sequences, more devices and
// larger batches first. Failed runs keep their row, with the status in place of the figures. If
// rows cannot be told apart by the columns of a style, or differ in a layout that no column shows,
// a last column names them (Label). With `published`, the closest published row and its figures
// follow each row of ours.
ResultTable make_table(TableStyle style, std::vector<RunRecord> records,
                       const std::vector<ReferenceRow>* published = nullptr);

// One record per configuration, launcher, build, machine and first step (and reason, if it was
// rejected): the newest that succeeded, else the newest.
std::vector<RunRecord> without_repeats(std::vector<RunRecord> records);

// The records of a file, or of all files below a directory, without repeats. Throws Error
// (no_input) if there are none.
std::vector<RunRecord> load_records(Fs& fs, const std::string& path);

// For each record, why it must not be compared with most of the others: "other build", "other
// machine", "other clock state" (the rate of one core is 5 % off their median). Empty if it may.
std::vector<std::string> incomparable(const std::vector<RunRecord>& records);

}  // namespace stretto
