// What there is to choose for a whole step: the algorithms of each product and the ways around it,
// for a tuner that times steps (train/step_tuner.h).
#include <algorithm>
#include <cstring>
#include <set>

#include "backend/cuda/cublas_library.h"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/gemm.h"
#include "base/log.h"

namespace stretto::cuda {
namespace {

bool same(const cublasLtMatmulAlgo_t& a, const cublasLtMatmulAlgo_t& b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

template <typename T>
T config_of(const cublasLtMatmulAlgo_t& algo, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  T value{};
  size_t written = 0;
  CUBLAS_CHECK(cublas_lt().algo_config(&algo, attribute, &value, sizeof(value), &written));
  return value;
}

template <typename T>
bool configure(cublasLtMatmulAlgo_t& algo, cublasLtMatmulAlgoConfigAttributes_t attribute,
               T value) {
  return cublas_lt().set_algo_config(&algo, attribute, &value, sizeof(value)) ==
         CUBLAS_STATUS_SUCCESS;
}

int32_t last_option_of(const cublasLtMatmulAlgo_t& algo) {
  int32_t most = 0;
  size_t written = 0;
  cublas_lt().algo_cap(&algo, CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX, &most, sizeof(most), &written);
  return most;
}

}  // namespace

void Gemm::widen(Candidates& found, const Plan& p, const GemmProblem& problem) {
  constexpr uint16_t kClusters[] = {CUBLASLT_CLUSTER_SHAPE_1x1x1, CUBLASLT_CLUSTER_SHAPE_2x1x1,
                                    CUBLASLT_CLUSTER_SHAPE_1x2x1, CUBLASLT_CLUSTER_SHAPE_2x2x1,
                                    CUBLASLT_CLUSTER_SHAPE_4x1x1, CUBLASLT_CLUSTER_SHAPE_1x4x1};
  const Candidates first = found;
  std::set<uint32_t> tiles;
  for (const auto& candidate : first) {
    tiles.insert(config_of<uint32_t>(candidate.algo, CUBLASLT_ALGO_CONFIG_TILE_ID));
  }
  std::set<int32_t> done;
  const auto offer = [&](const cublasLtMatmulAlgo_t& algo) {
    const bool known =
        std::any_of(found.begin(), found.end(), [&](const auto& r) { return same(r.algo, algo); });
    cublasLtMatmulHeuristicResult_t result{};
    if (known || cublas_lt().check_algo(handle_, p.desc, p.a, p.b, p.d, p.d, &algo, &result) !=
                     CUBLAS_STATUS_SUCCESS) {
      return;
    }
    if (result.workspaceSize > workspace_.bytes()) return;
    result.algo = algo;
    found.push_back(result);
  };
  if (p.tuned) offer(p.algo);  // what is in use, wherever it came from
  for (const auto& candidate : first) {
    const auto id = config_of<int32_t>(candidate.algo, CUBLASLT_ALGO_CONFIG_ID);
    const auto parts = config_of<int32_t>(candidate.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
    if (parts > 1 || !done.insert(id).second) continue;
    for (const uint32_t tile : tiles) {
      for (const uint16_t cluster : kClusters) {
        for (int32_t option = 0; option <= last_option_of(candidate.algo); ++option) {
          cublasLtMatmulAlgo_t algo = candidate.algo;
          if (configure(algo, CUBLASLT_ALGO_CONFIG_TILE_ID, tile) &&
              configure(algo, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, cluster) &&
              configure(algo, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, option)) {
            offer(algo);
          }
        }
      }
    }
  }
  spdlog::debug("cuda: {}: {} algorithms, {} settings", problem.text(), first.size(), found.size());
}

// The fastest few, and what is in use.
void Gemm::collect(Plan& p, const std::vector<Algorithm>& sorted) {
  constexpr size_t kMost = 4;
  const size_t count = std::min(sorted.size(), kMost);
  p.collected.assign(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count));
  const bool used = std::any_of(p.collected.begin(), p.collected.end(),
                                [&](const Algorithm& a) { return same(a.algo, p.algo); });
  if (p.tuned && !used) p.collected.push_back({p.algo, p.seconds});
}

std::string Gemm::cache_value(const Algorithm& a) {
  std::string text = fmt::format("{:.9f} ", a.seconds);
  for (const uint64_t word : a.algo.data) text += fmt::format("{:016x}", word);
  return text;
}

std::vector<Tunable> Gemm::tunables() {
  if (handles_.empty()) {
    for (auto& [problem, plan] : plans_) {
      if (plan.collected.size() > 1) handles_.push_back({&plan, problem});
    }
    for (const auto& [problem, ways] : ways_) {
      if (ways > 1) handles_.push_back({nullptr, problem});
    }
  }
  std::vector<Tunable> all;
  for (const Handle& h : handles_) {
    if (h.plan == nullptr) {
      all.push_back({"way of " + h.problem.text(), static_cast<int>(ways_[h.problem]),
                     static_cast<int>(choices_[h.problem])});
      continue;
    }
    const auto& collected = h.plan->collected;
    const auto used = std::find_if(collected.begin(), collected.end(),
                                   [&](const Algorithm& a) { return same(a.algo, h.plan->algo); });
    all.push_back({h.problem.text(), static_cast<int>(collected.size()),
                   static_cast<int>(used == collected.end() ? 0 : used - collected.begin())});
  }
  return all;
}

void Gemm::set_tunables(std::span<const int> options) {
  STRETTO_CHECK(options.size() == handles_.size(), "{} options for {} choices", options.size(),
                handles_.size());
  for (size_t i = 0; i < options.size(); ++i) {
    const Handle& h = handles_[i];
    const auto option = static_cast<size_t>(options[i]);
    if (h.plan == nullptr) {
      choices_[h.problem] = option;
    } else {
      h.plan->algo = h.plan->collected[option].algo;
      h.plan->seconds = h.plan->collected[option].seconds;
    }
  }
}

void Gemm::remember_tunables() {
  for (const Handle& h : handles_) {
    const std::string key =
        h.plan != nullptr ? key_of(h.problem) : choice_key(h.problem, ways_[h.problem]);
    const std::string value = h.plan != nullptr ? cache_value({h.plan->algo, h.plan->seconds})
                                                : std::to_string(choices_[h.problem]);
    cache_.replace(key, value);
  }
}

}  // namespace stretto::cuda
