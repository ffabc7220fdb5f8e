// The axes that ranks lie on, and the order in which they are dealt out over the machine.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace stretto {

enum class Axis { dp, tp, pp };
constexpr int kAxes = 3;
const char* name_of(Axis axis);

// "tp,dp,pp", spaces around the words allowed: the axes, innermost first. Empty unless each is
// there once.
std::optional<std::array<Axis, kAxes>> parse_rank_order(std::string_view text);

}  // namespace stretto
