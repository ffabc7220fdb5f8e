// Finds the published tables: in a directory of CSV files, or built into the program.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reference/csv.h"
#include "reference/rows.h"

namespace stretto {

struct ReferenceTables {
  std::string origin;            // "reference/" or "built in"
  std::vector<CsvTable> tables;  // mpt, mosaicgpt, bloom, fugaku
};

ReferenceTables embedded_reference();
// Reads the four files in `directory`. Throws Error: no_input for a missing one, bad_data for one
// that cannot be read as a table.
ReferenceTables read_reference(const std::string& directory);
// Reads `directory` if given; else reference/ if it exists here with the four tables; else the
// built-in tables.
ReferenceTables find_reference(const std::optional<std::string>& directory);

// All rows of all tables, in table order. Without an argument: the built-in tables.
std::vector<ReferenceRow> load_reference(const ReferenceTables& tables);
std::vector<ReferenceRow> load_reference();

}  // namespace stretto
