// The axes of the mesh, and the order in which ranks are dealt out along them.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace stretto {

enum class Axis { dp, tp, pp };
constexpr int kAxes = 3;
const char* name_of(Axis axis);

// Parses "tp,dp,pp" (spaces are allowed): the axes, innermost first. Empty unless each of them
// appears once.
std::optional<std::array<Axis, kAxes>> parse_rank_order(std::string_view text);

}  // namespace stretto
