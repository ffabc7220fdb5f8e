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

std::string broadcast_text(Comm& world, const std::string& mine, int root) {
  std::string text = world.rank() == root ? mine : "";
  auto size = static_cast<double>(text.size());
  world.broadcast(Tensor(&size, DType::f64, {1}), root);
  text.resize(static_cast<size_t>(size));
  if (text.empty()) return text;
  world.broadcast(Tensor(text.data(), DType::u8, {std::ssize(text)}), root);
  return text;
}

void throw_together(Comm& world, const std::optional<Error>& mine) {
  int32_t place = mine ? world.size() - world.rank() : 0;  // greater on lower ranks
  world.all_reduce(Tensor(&place, DType::i32, {1}), ReduceOp::max);
  if (place == 0) return;
  const auto told = [&](const std::string& text) {
    return broadcast_text(world, text, world.size() - place);
  };
  int32_t code = mine ? static_cast<int32_t>(mine->code()) : 0;
  world.broadcast(Tensor(&code, DType::i32, {1}), world.size() - place);
  const std::string what = told(mine ? mine->what() : ""), hint = told(mine ? mine->hint() : "");
  throw Error(static_cast<ExitCode>(code), what, hint);
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
