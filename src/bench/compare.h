// Two sets of records, configuration by configuration: what became slower, and how surely.
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
  std::string launcher;  // what started the ranks of both; empty: not the same
  Verdict verdict = Verdict::same;
  Ratio ratio;  // seconds per step, B over A
  double median_a = 0, median_b = 0;
  int64_t runs_a = 0, runs_b = 0;
  bool in_turns = false;  // the ratio is of neighbouring steps: the runs took turns
  std::string note;       // "other machine"
};

// Configurations that both sides hold, in the order of A. Runs whose ranks were started otherwise
// (threads, mpirun, srun) are no repeats of each other: each kind is compared with its own, and
// with another one, which the note says, only where both sides know a single kind. `tolerance`:
// changes below it are noise by decree (0.01 is 1 %). slower and faster: the whole 95 % interval
// lies beyond the tolerance. unclear: the interval reaches from "nothing" to beyond 5 %, so more
// steps are needed.
std::vector<Comparison> compare_records(const std::vector<RunRecord>& a,
                                        const std::vector<RunRecord>& b, double tolerance);

// What `side` holds and `other` has nothing to compare with: the first record of each kind, with
// its name among all of `side`.
struct Lonely {
  const RunRecord* record;
  std::string name;
};
std::vector<Lonely> not_compared(const std::vector<RunRecord>& side,
                                 const std::vector<RunRecord>& other);

}  // namespace stretto
