// What would make a layout faster or make it fit: named rules, each with its predicted price.
#pragma once

#include <string>
#include <vector>

#include "plan/search.h"

namespace stretto::plan {

struct Advice {
  std::string rule;   // pad-vocabulary
  std::string text;   // what to change
  double before = 0;  // seconds per iteration
  double after = 0;   // with the change (for a changed model: at equal work)
  bool changes_model = false;
  double saving() const { return 1 - after / before; }
};

// Changes that help, largest saving first: of the model by a tenth of a percent at least, of the
// layout by more than a tie.
std::vector<Advice> advice_for(const Cluster& cluster, const Stack& stack, const Workload& work,
                               const Candidate& candidate);

// What `second` pays more than `first`, term by term, largest difference first.
std::vector<Term> difference(const Estimate& first, const Estimate& second);

// How far one constant would have to be off for `second` to be as fast as `first`.
struct Upset {
  Constant constant;
  double factor = 1;  // on the constant
};
// Nearest first; empty when no single constant within a factor of four does it.
std::vector<Upset> upsets(const Cluster& cluster, const Stack& stack, const Workload& work,
                          const Layout& first, const Layout& second);

// When a layout does not fit: the smallest change that does, in words, and the layout after it.
struct FitChange {
  std::string text;
  Layout layout;
};
std::optional<FitChange> nearest_fit(const Cluster& cluster, const Stack& stack,
                                     const Workload& work, const Layout& layout);

}  // namespace stretto::plan
