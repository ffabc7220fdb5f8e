// How algorithms, and ways around a product, are compared: timed on the real operands, in bursts
// and in turn, and the winner remembered.
#include <algorithm>
#include <limits>

#include "backend/cuda/cuda_check.h"
#include "backend/cuda/gemm.h"
#include "base/log.h"

namespace stretto::cuda {
namespace {

constexpr int kFinalists = 6;
constexpr int kWider = 12;        // finalists where further settings compete too
constexpr int kRounds = 4;        // of the finalists, in turn: clocks change under load
constexpr double kBurst = 0.002;  // seconds of one algorithm in a row, as a layer would run it

}  // namespace

// Timed into a scratch result, since the real one may be accumulated into.
void Gemm::tune(Plan& p, const GemmProblem& problem, const GemmOperands& operands,
                const Candidates& candidates) {
  const size_t bytes = static_cast<size_t>(problem.ldd * problem.n) * dtype_size(problem.out);
  const std::string key = key_of(problem);
  const auto refused = cache_.find(key);  // by restore()
  GemmOperands trial = operands;
  const bool sums = problem.epilogue == Epilogue::bgradb;
  StreamMemory result(bytes + (sums ? static_cast<size_t>(problem.n) * sizeof(float) : 0), stream_);
  if (result.data() == nullptr) {
    spdlog::warn("cuda: no memory left to time {}; taking the library's first choice",
                 problem.text());
    p.tuned = true;
    return;
  }
  trial.d = result.data();
  if (sums) trial.bias = static_cast<char*>(result.data()) + bytes;
  set_pointers(p, problem, trial);

  std::vector<std::pair<double, size_t>> ranking;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (launch(p, problem, trial, candidates[i].algo) != CUBLAS_STATUS_SUCCESS) continue;
    const double once = measure([&] { launch(p, problem, trial, candidates[i].algo); });
    ranking.emplace_back(once, i);
  }
  std::sort(ranking.begin(), ranking.end());
  const size_t most = collect_ ? kWider : kFinalists;
  if (ranking.size() > most) ranking.resize(most);
  std::vector<std::function<void()>> finalists;
  for (const auto& candidate : ranking) {
    const size_t i = candidate.second;
    finalists.emplace_back([&, i] { launch(p, problem, trial, candidates[i].algo); });
  }
  const std::vector<double> seconds = settle_ > 0 ? settled(finalists) : race(finalists);
  result = {};
  std::vector<Algorithm> timed;
  for (size_t i = 0; i < ranking.size(); ++i) {
    timed.push_back({candidates[ranking[i].second].algo, seconds[i]});
    spdlog::debug("cuda: {}: {}", key, cache_value(timed.back()));
  }
  std::stable_sort(timed.begin(), timed.end(),
                   [](const Algorithm& a, const Algorithm& b) { return a.seconds < b.seconds; });
  if (collect_) collect(p, timed);
  if (p.tuned) return;  // one was in use already, and stays so
  p.tuned = true;
  p.supported = !timed.empty();
  if (!p.supported) return;
  p.algo = timed.front().algo;
  p.seconds = timed.front().seconds;
  const std::string value = cache_value(timed.front());
  if (cache_.settle(key, value, refused) != value) restore(p, problem);  // another rank was first
}

double Gemm::measure(const std::function<void()>& work) {
  CUDA_CHECK(cudaEventRecord(begin_, stream_));
  work();
  CUDA_CHECK(cudaEventRecord(end_, stream_));
  CUDA_CHECK(cudaEventSynchronize(end_));
  float ms = 0;
  CUDA_CHECK(cudaEventElapsedTime(&ms, begin_, end_));
  return static_cast<double>(ms) * 1e-3;
}

size_t Gemm::choose(const GemmProblem& problem,
                    const std::vector<std::function<double()>>& seconds) {
  if (way_ >= 0) return std::min(static_cast<size_t>(way_), seconds.size() - 1);
  if (const auto known = choices_.find(problem); known != choices_.end()) {
    return std::min(known->second, seconds.size() - 1);
  }
  const std::string key = choice_key(problem, seconds.size());
  const auto known = tune_ ? cache_.find(key) : std::nullopt;
  if (collect_) {
    ways_[problem] = seconds.size();
    for (const auto& measure_way : seconds) measure_way();  // every way must know its algorithms
  }
  if (known) {
    const auto index = static_cast<size_t>(std::strtoul(known->c_str(), nullptr, 10));
    if (index < seconds.size()) return choices_[problem] = index;
  }
  if (!tuning()) return 0;
  size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < seconds.size(); ++i) {
    const double time = seconds[i]();
    if (time < least) {
      least = time;
      best = i;
    }
  }
  const std::string settled = cache_.settle(key, std::to_string(best), known);
  best = static_cast<size_t>(std::strtoul(settled.c_str(), nullptr, 10));
  return choices_[problem] = std::min(best, seconds.size() - 1);
}

size_t Gemm::fastest(const GemmProblem& problem, const Ways& ways) {
  if (ways.size() == 1) return 0;
  std::vector<double> costs;
  const auto compare = [&] {
    std::vector<std::function<void()>> runs, passes;
    std::vector<size_t> owner;
    for (size_t i = 0; i < ways.size(); ++i) {
      ways[i].run();  // the first run chooses algorithms and loads code
      runs.push_back(ways[i].run);
      if (!ways[i].pass) continue;
      passes.push_back(ways[i].pass);
      owner.push_back(i);
    }
    costs = race(runs);
    const std::vector<double> light = race(passes);
    for (size_t k = 0; k < light.size(); ++k) {
      costs[owner[k]] -= (1 - ways[owner[k]].pass_weight) * light[k];
    }
    for (size_t i = 0; i < ways.size(); ++i) {
      costs[i] *= ways[i].weight;
      spdlog::debug("cuda: {}: way {} counts {:.1f} us", problem.text(), i, 1e6 * costs[i]);
    }
  };
  std::vector<std::function<double()>> seconds;
  for (size_t i = 0; i < ways.size(); ++i) {
    seconds.emplace_back([&, i] {
      if (costs.empty()) compare();
      return costs[i];
    });
  }
  return choose(problem, seconds);
}

// Seconds of each: the least of several bursts, in turn.
std::vector<double> Gemm::race(const std::vector<std::function<void()>>& runs) {
  std::vector<double> once, least(runs.size(), std::numeric_limits<double>::infinity());
  for (const auto& run : runs) once.push_back(measure(run));
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < runs.size(); ++i) {
      const int count = std::clamp(static_cast<int>(kBurst / once[i]), 1, 20);
      const double all = measure([&] {
        for (int n = 0; n < count; ++n) runs[i]();
      });
      least[i] = std::min(least[i], all / count);
    }
  }
  return least;
}

// Seconds of each on a card as hot and as held back as in training: the last two thirds of a long
// burst, there and back.
std::vector<double> Gemm::settled(const std::vector<std::function<void()>>& runs) {
  std::vector<double> sums(runs.size());
  for (size_t turn = 0; turn < 2 * runs.size(); ++turn) {
    const size_t i = turn < runs.size() ? turn : 2 * runs.size() - 1 - turn;
    const int third = std::max(1, static_cast<int>(settle_ / 3 / measure(runs[i])));
    const auto repeat = [&](int count) {
      for (int n = 0; n < count; ++n) runs[i]();
    };
    repeat(third);
    sums[i] += measure([&] { repeat(2 * third); }) / (2 * third) / 2;
  }
  return sums;
}

}  // namespace stretto::cuda
