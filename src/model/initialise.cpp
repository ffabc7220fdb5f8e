#include "model/initialise.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/cores.h"
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
  if (spec.words) {
    const int64_t real = std::clamp<int64_t>(vocab * spec.columns - run.global_begin, 0, run.count);
    std::fill(out + real, out + run.count, 0.0f);
  }
}

}  // namespace

void initial_values(const FlatLayout& layout, int64_t vocab, int64_t tp, int64_t tp_rank,
                    uint64_t seed, const ValueVisitor& visit) {
  constexpr int64_t kPiece = int64_t{1} << 16;   // elements that a thread draws at a time
  constexpr int64_t kAtOnce = int64_t{1} << 22;  // elements between two visits
  int64_t longest = 0;
  for (const FlatUnit& unit : layout.units) {
    for (const FlatParameter& p : unit.parameters) longest = std::max(longest, p.count);
  }
  std::vector<float> values(static_cast<size_t>(std::min(longest, kAtOnce)));
  for (size_t u = 0; u < layout.units.size(); ++u) {
    for (const FlatParameter& p : layout.units[u].parameters) {
      const CounterRng rng(seed, stream_of(p.spec.name));
      // Short runs (columns of a matrix) or parts of a long one, many at a time.
      std::vector<std::pair<Run, int64_t>> pieces;  // run, place among the values
      int64_t begin = 0, held = 0;                  // of the shard
      const auto hand_over = [&] {
        parallel_for(static_cast<int>(usable_cores()), static_cast<int64_t>(pieces.size()),
                     [&](int64_t i) {
                       const auto& [run, at] = pieces[static_cast<size_t>(i)];
                       fill(p.spec, rng, vocab, run, values.data() + at);
                     });
        if (held > 0) visit(u, p.offset + begin, values.data(), held);
        pieces.clear();
        begin += std::exchange(held, 0);
      };
      for (const Run& run : shard_runs(p.spec, tp, tp_rank)) {
        for (int64_t done = 0; done < run.count; done += pieces.back().first.count) {
          if (held + kPiece > kAtOnce) hand_over();
          pieces.push_back({{run.global_begin + done, std::min(kPiece, run.count - done)}, held});
          held += pieces.back().first.count;
        }
      }
      hand_over();
    }
  }
}

}  // namespace stretto
