#include "checkpoint/digest.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

namespace stretto {

std::string Digest::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Digest digest_of(const void* data, size_t bytes) {
  const XXH128_hash_t hash = XXH3_128bits(data, bytes);
  return {hash.high64, hash.low64};
}

bool parse_digest(std::string_view hex, Digest& out) {
  if (hex.size() != 32) return false;
  uint64_t words[2] = {};
  for (size_t i = 0; i < 32; ++i) {
    const char c = hex[i];
    const bool digit = c >= '0' && c <= '9', letter = c >= 'a' && c <= 'f';
    if (!digit && !letter) return false;
    words[i / 16] = words[i / 16] << 4 | static_cast<uint64_t>(digit ? c - '0' : c - 'a' + 10);
  }
  out = {words[0], words[1]};
  return true;
}

}  // namespace stretto
