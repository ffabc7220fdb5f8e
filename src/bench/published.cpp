#include "bench/published.h"

#include <algorithm>
#include <cmath>

#include "account/parameters.h"
#include "bench/figures.h"

namespace stretto {
namespace {

double distance(const RunRecord& record, const ReferenceRow& row) {
  const auto apart = [](double a, double b) { return std::abs(std::log(a / b)); };
  const ModelShape shape = row.shape();
  const double sizes = apart(static_cast<double>(parameters_of(record.config).value_or(0)),
                             static_cast<double>(parameter_count(shape)));
  return sizes +
         0.5 * apart(static_cast<double>(record.config.seq_len),
                     static_cast<double>(row.seq_len.value_or(1))) +
         0.25 * apart(static_cast<double>(record.devices()),
                      static_cast<double>(std::max<int64_t>(1, row.devices()))) +
         (precision_of(row) == record.config.precision ? 0 : 0.1) +
         (row.hardware == record.device ? 0 : 0.05);
}

}  // namespace

Precision precision_of(const ReferenceRow& row) {
  if (row.precision == "amp_fp8") return Precision::amp_fp8;
  if (row.precision == "bf16") return Precision::bf16;
  if (row.precision == "fp16") return Precision::amp_fp16;
  return Precision::amp_bf16;
}

const ReferenceRow* nearest_row(const RunRecord& record, const std::vector<ReferenceRow>& rows) {
  const ReferenceRow* best = nullptr;
  double least = 0;
  for (const ReferenceRow& row : rows) {
    const bool sized = row.layers && row.hidden && row.vocab && row.seq_len;
    if (row.status != "ok" || !sized) continue;
    const double d = distance(record, row);
    if (!std::isfinite(d)) continue;  // a rejected run without a size
    if (best == nullptr || d < least) best = &row, least = d;
  }
  return best;
}

}  // namespace stretto
