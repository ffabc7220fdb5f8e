#include "data/token_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/ceil_div.h"
#include "base/error.h"

namespace stretto {
namespace {

constexpr int64_t kStretch = int64_t{1} << 18;  // tokens
constexpr int64_t kStretches = 256;
// 16 KiB, so that it does not show in the memory of a small run.
constexpr int64_t kAtOnce = 1 << 12;

}  // namespace

void check_ids(const TokenSource& source, int64_t vocab, std::span<const int32_t> ids,
               int64_t position) {
  int32_t largest = 0;
  for (const int32_t id : ids) largest = std::max(largest, id);
  if (largest < vocab) return;
  const auto bad = std::find_if(ids.begin(), ids.end(), [=](int32_t id) { return id >= vocab; });
  throw Error(ExitCode::bad_data,
              fmt::format("{}: token {} has id {}, outside the vocabulary of {}", source.name(),
                          position + (bad - ids.begin()), *bad, vocab),
              "set model.vocab to the tokenizer's size, or prepare the file with this tokenizer");
}

int64_t spread_place(int64_t i, int64_t places, int64_t room) {
  const int64_t last = std::max<int64_t>(places - 1, 1);
  return room / last * i + room % last * i / last;
}

void look_over(const TokenSource& source, int64_t vocab, int part, int parts) {
  const int64_t tokens = source.tokens(), stretch = std::min(kStretch, tokens);
  if (tokens == 0) return;
  const int64_t places = std::min(kStretches, ceil_div(tokens, stretch));
  std::vector<int32_t> room(static_cast<size_t>(std::min(kAtOnce, stretch)));
  for (int64_t i = part; i < places; i += parts) {
    const int64_t begin = spread_place(i, places, tokens - stretch);
    for (int64_t at = begin; at < begin + stretch; at += std::ssize(room)) {
      const auto left = static_cast<size_t>(begin + stretch - at);
      const auto ids = std::span(room).first(std::min(left, room.size()));
      source.read(at, ids);
      check_ids(source, vocab, ids, at);
    }
  }
}

}  // namespace stretto
