#include "train/gather.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/trace.h"

namespace stretto {

// Rank 0 answers each rank in turn. The rank assumes that rank 0 read its clock half-way through
// the quickest of several round trips.
double clock_offset(Comm& world) {
  constexpr int kTrips = 8;
  double offset = 0, quickest = 1e9;
  for (int r = 1; r < world.size(); ++r) {
    for (int trip = 0; trip < kTrips; ++trip) {
      double time = 0;
      const Tensor word(&time, DType::f64, {1});
      if (world.rank() == 0) {
        world.recv(word, r);
        time = clock_seconds();
        world.send(word, r);
      } else if (world.rank() == r) {
        const double asked = clock_seconds();
        world.send(word, 0);
        world.recv(word, 0);
        const double answered = clock_seconds();
        if (answered - asked >= quickest) continue;
        quickest = answered - asked;
        offset = time - (asked + answered) / 2;
      }
    }
  }
  return std::abs(offset) <= quickest ? 0 : offset;
}

std::vector<std::string> gather_texts(Comm& world, const std::string& mine) {
  const auto n = static_cast<size_t>(world.size());
  std::vector<double> sizes(n);
  const auto size = static_cast<double>(mine.size());
  world.all_gather(Tensor(sizes.data(), DType::f64, {world.size()}),
                   ConstTensor(&size, DType::f64, {1}));
  if (world.rank() != 0) {
    if (mine.empty()) return {};
    world.send(ConstTensor(mine.data(), DType::u8, {static_cast<int64_t>(mine.size())}), 0);
    return {};
  }
  std::vector<std::string> all = {mine};
  for (size_t r = 1; r < n; ++r) {
    all.emplace_back(static_cast<size_t>(sizes[r]), '\0');
    if (all[r].empty()) continue;
    world.recv(Tensor(all[r].data(), DType::u8, {static_cast<int64_t>(all[r].size())}),
               static_cast<int>(r));
  }
  return all;
}

}  // namespace stretto
