// Recomputes every derived figure of the published tables from the row's own columns.
//
// Strict: with every input somewhere inside its own rounding interval, the recomputed figure must
// meet the rounding interval of the published one. Formulas come from account/flops.h.
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
  int64_t known = 0;     // do not reproduce, and are listed as anomalies
  double max_error = 0;  // relative, over the rows that reproduce
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
  std::vector<FigureFailure> failures;  // known ones and others
  int64_t checks = 0;                   // single figures recomputed

  bool passed() const;  // every failure is a known anomaly
};

ReferenceCheck check_reference(const std::vector<ReferenceRow>& rows);

// A row or cell that vanished cannot fail its check. Adds a failure for each figure of `expected`
// (the built-in tables) that has fewer rows here.
void require_as_many_rows(ReferenceCheck& check, const ReferenceCheck& expected);

}  // namespace stretto
