// Embedding by slow, obvious loops in double.
#pragma once

#include <cstddef>
#include <vector>

namespace stretto::reference {

using Values = std::vector<double>;

// tokens: (batch, length), as numbers. Empty tables are none.
inline Values embedding_forward(const Values& tokens, size_t length, const Values& wte,
                                const Values& wpe, size_t width, long vocab_begin,
                                long first_position) {
  Values out(tokens.size() * width, 0.0);
  for (size_t r = 0; r < tokens.size(); ++r) {
    const long token = static_cast<long>(tokens[r]) - vocab_begin;
    const bool here = token >= 0 && token < static_cast<long>(wte.size() / width);
    const size_t position = r % length + static_cast<size_t>(first_position);
    for (size_t c = 0; c < width; ++c) {
      if (here) out[r * width + c] += wte[static_cast<size_t>(token) * width + c];
      if (!wpe.empty()) out[r * width + c] += wpe[position * width + c];
    }
  }
  return out;
}

// Adds to dwte and dwpe; empty ones are none.
inline void embedding_backward(Values& dwte, Values& dwpe, const Values& dout, const Values& tokens,
                               size_t length, size_t width, long vocab_begin, long first_position) {
  for (size_t r = 0; r < tokens.size(); ++r) {
    const long token = static_cast<long>(tokens[r]) - vocab_begin;
    const bool here = token >= 0 && token < static_cast<long>(dwte.size() / width);
    const size_t position = r % length + static_cast<size_t>(first_position);
    for (size_t c = 0; c < width; ++c) {
      if (here) dwte[static_cast<size_t>(token) * width + c] += dout[r * width + c];
      if (!dwpe.empty()) dwpe[position * width + c] += dout[r * width + c];
    }
  }
}

}  // namespace stretto::reference
