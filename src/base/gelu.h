// The forms of GELU that models in use were trained with: GPT-2's tanh approximation, and the
// exact x Phi(x) of MPT.
#pragma once

namespace stretto {

enum class Gelu { tanh, exact, none };

}  // namespace stretto
