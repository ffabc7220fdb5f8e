// What every target does with an Error: refusing bad input is an answer, a broken contract is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace stretto {

inline std::string_view fuzz_bytes(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

template <typename Action>
void accept_refusal(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    if (error.code() == ExitCode::internal) throw;
  }
}

}  // namespace stretto
