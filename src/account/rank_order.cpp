#include "account/rank_order.h"

#include <algorithm>

namespace stretto {

const char* name_of(Axis axis) { return axis == Axis::dp ? "dp" : axis == Axis::tp ? "tp" : "pp"; }

std::optional<std::array<Axis, kAxes>> parse_rank_order(std::string_view text) {
  std::array<Axis, kAxes> axes{};
  std::array<bool, kAxes> seen{};
  for (size_t i = 0; i < kAxes; ++i) {
    const bool last = i + 1 == kAxes;
    const size_t comma = text.find(',');
    if (last != (comma == std::string_view::npos)) return std::nullopt;
    std::string_view word = text.substr(0, comma);
    text.remove_prefix(last ? text.size() : comma + 1);
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    const std::array<Axis, kAxes> all = {Axis::dp, Axis::tp, Axis::pp};
    const auto axis =
        std::find_if(all.begin(), all.end(), [&](Axis a) { return word == name_of(a); });
    if (axis == all.end() || seen[static_cast<size_t>(*axis)]) return std::nullopt;
    seen[static_cast<size_t>(*axis)] = true;
    axes[i] = *axis;
  }
  return axes;
}

}  // namespace stretto
