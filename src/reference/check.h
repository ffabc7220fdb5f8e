// Recomputes every derived figure of the published tables from other columns of its row.
//
// The check is strict: if every input may be anywhere in its rounding interval, the recomputed
// figure must meet the rounding interval of the published one. Formulas are those of
// account/flops.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/rows.h"

namespace stretto {

struct FigureSummary {  // one figure of one group of rows
  std::string file;     // mpt
  std::string group;    // "H100 80GB BF16"
  std::string figure;   // "MFU"
  int64_t rows = 0;
  int64_t reproduced = 0;
  int64_t known = 0;     // cannot be reproduced, but are listed as anomalies
  double max_error = 0;  // relative, over the rows that can be reproduced
  double median_error = 0;
};

struct FigureFailure {
  std::string file, id, figure;
  int64_t line = 0;
  std::string published;
  double recomputed = 0;
  bool known = false;
  std::string reason;
};

struct ReferenceCheck {
  std::vector<FigureSummary> figures;
  std::vector<FigureFailure> failures;  // known anomalies and others
  int64_t checks = 0;                   // single figures recomputed

  bool passed() const;  // every failure is a known anomaly
};

ReferenceCheck check_reference(const std::vector<ReferenceRow>& rows);

// A row or cell that has vanished cannot fail. So this adds a failure for each figure that has
// fewer rows than in `expected` (the built-in tables).
void require_as_many_rows(ReferenceCheck& check, const ReferenceCheck& expected);

}  // namespace stretto
