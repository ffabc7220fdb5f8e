#include "model/initialise.h"

#include <algorithm>
#include <vector>

#include "base/parallel_for.h"
#include "base/random.h"

namespace stretto {
namespace {

void fill(const ParameterSpec& spec, const CounterRng& rng, int64_t vocab, Run run, float* out) {
  const auto count = static_cast<size_t>(run.count);
  switch (spec.init) {
    case Init::zeros:
      std::fill_n(out, count, 0.0f);
      break;
    case Init::ones:
      std::fill_n(out, count, 1.0f);
      break;
    case Init::normal:
      rng.fill_normal(out, static_cast<uint64_t>(run.global_begin), count,
                      static_cast<float>(spec.init_std));
      break;
  }
  // Rows that only pad the vocabulary stay zero.
  if (spec.name == "wte" || spec.name == "head") {
    const int64_t real = std::clamp<int64_t>(vocab * spec.columns - run.global_begin, 0, run.count);
    std::fill(out + real, out + run.count, 0.0f);
  }
}

}  // namespace

void initial_values(const FlatLayout& layout, int64_t vocab, int64_t tp, int64_t tp_rank,
                    uint64_t seed, const ValueVisitor& visit) {
  int64_t most = 0;
  for (const FlatUnit& unit : layout.units) {
    for (const FlatParameter& p : unit.parameters) most = std::max(most, p.count);
  }
  std::vector<float> values(static_cast<size_t>(most));
  for (size_t u = 0; u < layout.units.size(); ++u) {
    for (const FlatParameter& p : layout.units[u].parameters) {
      const CounterRng rng(seed, stream_of(p.spec.name));
      // Short runs (columns of a matrix) or stretches of a long one, many at a time.
      std::vector<std::pair<Run, int64_t>> pieces;  // run, place in the shard
      int64_t place = 0;
      for (const Run& run : shard_runs(p.spec, tp, tp_rank)) {
        constexpr int64_t kStretch = 1 << 16;
        for (int64_t begin = 0; begin < run.count; begin += kStretch) {
          const int64_t count = std::min(kStretch, run.count - begin);
          pieces.push_back({{run.global_begin + begin, count}, place});
          place += count;
        }
      }
      parallel_for(omp_get_max_threads(), static_cast<int64_t>(pieces.size()), [&](int64_t i) {
        const auto& [run, at] = pieces[static_cast<size_t>(i)];
        fill(p.spec, rng, vocab, run, values.data() + at);
      });
      visit(u, p.offset, values.data(), p.count);
    }
  }
}

}  // namespace stretto
