// Any bytes as a line of metrics.jsonl: what is accepted has a step, and parts that can be added
// up.
#include "bench/training_curve.h"
#include "fuzz/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stretto;
  const auto line = parse_metrics_line(fuzz_bytes(data, size));
  if (!line) return 0;
  STRETTO_CHECK(line->step >= 0);
  STRETTO_CHECK(!line->evaluation || !line->parts);
  if (line->parts) {
    for (const double seconds : *line->parts) STRETTO_CHECK(seconds >= 0);
  }
  return 0;
}
