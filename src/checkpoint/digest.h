// XXH3-128: a digest that finds damage. It is no protection against forgery.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace stretto {

struct Digest {
  uint64_t high = 0, low = 0;
  bool operator==(const Digest&) const = default;

  std::string hex() const;  // 32 lower-case digits
};

Digest digest_of(const void* data, size_t bytes);
inline Digest digest_of(std::string_view text) { return digest_of(text.data(), text.size()); }

// The reverse of hex(); false for anything else, upper case included.
bool parse_digest(std::string_view hex, Digest& out);

}  // namespace stretto
