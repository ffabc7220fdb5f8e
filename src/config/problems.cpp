#include "config/problems.h"

#include "base/error.h"

namespace stretto {

void Problems::throw_if_any() const {
  if (all_.empty()) return;
  constexpr size_t kMostShown = 50;
  const size_t shown = std::min(all_.size(), kMostShown);
  std::string text;
  for (size_t i = 0; i < shown; ++i) {
    if (i > 0) text += fmt::format("\n  fix: {}\n", all_[i - 1].fix);
    text += all_[i].text;
  }
  if (shown < all_.size()) text += fmt::format("\n(and {} more problems)", all_.size() - shown);
  throw Error(ExitCode::bad_config, text, all_[shown - 1].fix);
}

}  // namespace stretto
