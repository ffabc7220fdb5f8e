// Compares two sets of records, configuration by configuration: what became slower, and how certain
// that is.
#pragma once

#include <string>
#include <vector>

#include "bench/record.h"
#include "bench/statistics.h"

namespace stretto {

enum class Verdict { same, slower, faster, unclear, broken, repaired };
const char* name_of(Verdict verdict);

struct Comparison {
  std::string label;  // of the first record: see run_names()
  std::string hash;
  std::string launcher;  // what started the ranks, if it was the same for both; else empty
  Verdict verdict = Verdict::same;
  Ratio ratio;  // seconds per step, B over A
  double median_a = 0, median_b = 0;
  int64_t runs_a = 0, runs_b = 0;
  bool in_turns = false;  // the ratio is of neighbouring steps of runs that took turns
  std::string note;       // such as "other machine"
};

// Configurations that both sides contain, in the order of A. Runs whose ranks were started in
// different ways (threads, mpirun, srun) are not repeats of each other: each way is compared with
// itself. Only if both sides know a single way, and not the same, these are compared, with a note.
// `tolerance`: smaller changes count as noise (0.01 is 1 %). slower and faster: the whole 95 %
// interval is beyond the tolerance. unclear: the interval includes both no change and more than 5
// %, so more steps are needed.
std::vector<Comparison> compare_records(const std::vector<RunRecord>& a,
                                        const std::vector<RunRecord>& b, double tolerance);

// What `side` contains and `other` has nothing to compare with: the first record of each kind, with
// its name among all of `side`.
struct Lonely {
  const RunRecord* record;
  std::string name;
};
std::vector<Lonely> not_compared(const std::vector<RunRecord>& side,
                                 const std::vector<RunRecord>& other);

}  // namespace stretto
