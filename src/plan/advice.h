// Named rules for what would make a layout faster, or make it fit, each with its predicted gain.
#pragma once

#include <string>
#include <vector>

#include "plan/search.h"

namespace stretto::plan {

struct Advice {
  std::string rule;   // such as "pad-vocabulary"
  std::string text;   // what to change
  double before = 0;  // seconds per iteration
  double after = 0;   // with the change (for a changed model: at equal work)
  bool changes_model = false;
  double saving() const { return 1 - after / before; }
};

// Changes that help, largest saving first. A change of the model must save a tenth of a percent, a
// change of the layout more than a tie.
std::vector<Advice> advice_for(const Cluster& cluster, const Stack& stack, const Workload& work,
                               const Candidate& candidate);

// What `second` takes longer than `first`, term by term, largest difference first.
std::vector<Term> difference(const Estimate& first, const Estimate& second);

// By which factor a constant would have to be wrong for `second` to be as fast as `first`.
struct Upset {
  Constant constant;
  double factor = 1;  // on the constant
};
// Smallest factor first; empty if no single constant within a factor of four is enough.
std::vector<Upset> upsets(const Cluster& cluster, const Stack& stack, const Workload& work,
                          const Layout& first, const Layout& second);

// The smallest change that makes a layout fit, in words, and the layout after it.
struct FitChange {
  std::string text;
  Layout layout;
};
std::optional<FitChange> nearest_fit(const Cluster& cluster, const Stack& stack,
                                     const Workload& work, const Layout& layout);

}  // namespace stretto::plan
