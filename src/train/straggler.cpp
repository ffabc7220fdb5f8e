#include "train/straggler.h"

#include <fmt/format.h>

#include <algorithm>

namespace stretto {

StragglerWatch::StragglerWatch(std::vector<int> stage_of, StragglerOptions options)
    : stage_of_(std::move(stage_of)),
      options_(options),
      own_best_(stage_of_.size(), 0),
      slow_(stage_of_.size(), 0) {}

bool StragglerWatch::add(double compute_seconds, int64_t tokens) {
  seconds_ += compute_seconds;
  tokens_ += tokens;
  return ++steps_ == options_.window;
}

double StragglerWatch::fastest_of_stage(size_t rank, const std::vector<double>& per_token) const {
  double fastest = 0;
  int64_t peers = 0;
  for (size_t r = 0; r < per_token.size(); ++r) {
    if (stage_of_[r] != stage_of_[rank]) continue;
    fastest = peers++ == 0 ? per_token[r] : std::min(fastest, per_token[r]);
  }
  return peers > 1 ? fastest : own_best_[rank];
}

std::vector<std::string> StragglerWatch::judge(const std::vector<double>& seconds) {
  const double tokens = static_cast<double>(tokens_) / static_cast<double>(options_.window);
  steps_ = tokens_ = 0;
  seconds_ = 0;
  std::vector<double> per_token;
  for (const double s : seconds) per_token.push_back(s / tokens);
  std::vector<std::string> lines;
  for (size_t r = 0; r < seconds.size(); ++r) {
    own_best_[r] = own_best_[r] == 0 ? per_token[r] : std::min(own_best_[r], per_token[r]);
    const double fastest = fastest_of_stage(r, per_token) * tokens;
    const double score = seconds[r] > 0 ? fastest / seconds[r] : 1;
    slow_[r] = score < options_.threshold ? slow_[r] + 1 : 0;
    if (slow_[r] != options_.windows) continue;
    lines.push_back(
        fmt::format("rank {} (stage {}) is slow: {:.3g} s of compute per step, {:.3g} s is the "
                    "fastest with the "
                    "same work (score {:.2f} below {:.2f} for {} steps)",
                    r, stage_of_[r], seconds[r], fastest, score, options_.threshold,
                    options_.windows * options_.window));
  }
  return lines;
}

}  // namespace stretto
