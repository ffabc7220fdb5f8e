#include "train/step_tuner.h"

#include <algorithm>
#include <cmath>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/numbers.h"

namespace stretto {
namespace {

// A step that is this much longer than the median was disturbed by something else than its options.
constexpr double kHiccup = 1.2;
constexpr size_t kSteady = 30;  // steps that share a base

}  // namespace

StepTuner::StepTuner(const std::vector<int>& options, uint64_t seed)
    : random_(seed, stream_of("step tuner")) {
  for (const int count : options) {
    STRETTO_CHECK(count > 0, "a choice of {} options", count);
    std::vector<int>& all = left_.emplace_back();
    for (int o = 0; o < count; ++o) all.push_back(o);
    effects_.emplace_back(static_cast<size_t>(count), 0.0);
  }
}

std::vector<int> StepTuner::draw() {
  std::vector<int> drawn;
  for (const auto& left : left_) {
    drawn.push_back(left[random_.bits(draws_++) % left.size()]);
  }
  return drawn;
}

void StepTuner::observe(std::span<const int> drawn, double seconds) {
  STRETTO_CHECK(drawn.size() == left_.size() && seconds > 0);
  steps_.push_back({{drawn.begin(), drawn.end()}, seconds});
}

int StepTuner::rounds() const {
  size_t most = 1;
  for (const auto& left : left_) most = std::max(most, left.size());
  int rounds = 0;
  for (; most > 1; most = (most + 1) / 2) ++rounds;
  return rounds;
}

void StepTuner::halve() {
  estimate();
  for (size_t i = 0; i < left_.size(); ++i) {
    std::stable_sort(left_[i].begin(), left_[i].end(), [&](int a, int b) {
      return effects_[i][static_cast<size_t>(a)] < effects_[i][static_cast<size_t>(b)];
    });
    left_[i].resize((left_[i].size() + 1) / 2);
  }
}

std::vector<int> StepTuner::best() const {
  std::vector<int> best;
  for (size_t i = 0; i < left_.size(); ++i) {
    best.push_back(*std::min_element(left_[i].begin(), left_[i].end(), [&](int a, int b) {
      return effects_[i][static_cast<size_t>(a)] < effects_[i][static_cast<size_t>(b)];
    }));
  }
  return best;
}

// Least squares over all steps. Unknowns are a base for every few steps (clocks drift) and the
// effect of each option. A weak spring draws effects towards zero; it also decides what the data
// leaves open, because only sums of a base and one effect per choice are seen.
void StepTuner::estimate() {
  if (steps_.empty()) return;
  std::vector<double> times;
  for (const Step& step : steps_) times.push_back(step.seconds);
  const double middle = median(times);

  std::vector<size_t> first;
  const size_t bases = ceil_div(steps_.size(), kSteady);
  size_t unknowns = bases;
  for (const auto& options : effects_) {
    first.push_back(unknowns);
    unknowns += options.size();
  }
  constexpr double kSpring = 1.0;  // weighs as much as one step
  std::vector<double> matrix(unknowns * unknowns), right(unknowns);
  for (size_t u = 0; u < unknowns; ++u) {
    matrix[u * unknowns + u] = u < bases ? 1e-6 : kSpring;
  }
  for (size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    const double excess = step.seconds / middle - 1;
    if (excess > kHiccup - 1) continue;
    std::vector<size_t> active{s / kSteady};
    for (size_t i = 0; i < first.size(); ++i) {
      active.push_back(first[i] + static_cast<size_t>(step.drawn[i]));
    }
    for (const size_t row : active) {
      right[row] += excess;
      for (const size_t column : active) matrix[row * unknowns + column] += 1;
    }
  }
  const auto found = cholesky_solve(std::move(matrix), std::move(right));
  STRETTO_CHECK(found, "springs hold every unknown");
  for (size_t i = 0; i < first.size(); ++i) {
    for (size_t o = 0; o < effects_[i].size(); ++o) {
      effects_[i][o] = (*found)[first[i] + o] * middle;
    }
  }
}

}  // namespace stretto
