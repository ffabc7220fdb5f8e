// The columns of each table style.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/figures.h"
#include "bench/observe.h"
#include "bench/tables.h"

namespace stretto {

struct RowFacts {
  const RunRecord& record;
  Figures figures;
  std::string incomparable;  // why this row cannot be compared with the others; else empty
  RecordForecast predicted;
};

struct TableColumn {
  std::string name;
  bool needs_time = false;  // runs without timed steps show their status here
  std::function<std::string(const RowFacts&)> cell;
};

std::vector<TableColumn> style_columns(TableStyle style,
                                       const std::vector<ReferenceRow>* published);

}  // namespace stretto
