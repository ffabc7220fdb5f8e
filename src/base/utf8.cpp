#include "base/utf8.h"

#include <algorithm>

namespace stretto {

CodePoint decode_utf8(std::string_view text) {
  if (text.empty()) return {};
  const auto byte = [&](size_t i) -> uint32_t { return static_cast<unsigned char>(text[i]); };
  const auto follows = [&](size_t i) { return i < text.size() && (byte(i) & 0xc0) == 0x80; };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead >= 0xc2 && lead <= 0xdf && follows(1)) {
    return {(lead & 0x1f) << 6 | (byte(1) & 0x3f), 2};
  }
  if (lead >= 0xe0 && lead <= 0xef && follows(1) && follows(2)) {
    const uint32_t code = (lead & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
    if (code >= 0x800 && (code < 0xd800 || code > 0xdfff)) return {code, 3};
  }
  if (lead >= 0xf0 && lead <= 0xf4 && follows(1) && follows(2) && follows(3)) {
    const uint32_t code =
        (lead & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f);
    if (code >= 0x10000 && code < 0x110000) return {code, 4};
  }
  return {};
}

CodePoint decode_valid_utf8(const char* at) {
  const auto byte = [&](int i) -> uint32_t { return static_cast<unsigned char>(at[i]); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xe0) return {(lead & 0x1f) << 6 | (byte(1) & 0x3f), 2};
  if (lead < 0xf0) return {(lead & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f), 3};
  return {(lead & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f),
          4};
}

void append_utf8(std::string& out, uint32_t code) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

size_t valid_utf8_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    // Most text is ASCII: eight bytes at a time.
    uint64_t word;
    while (at + 8 <= text.size()) {
      std::copy_n(text.data() + at, 8, reinterpret_cast<char*>(&word));
      if ((word & 0x8080808080808080ull) != 0) break;
      at += 8;
    }
    if (at == text.size()) break;
    const CodePoint point = decode_utf8(text.substr(at, 4));
    if (point.bytes == 0) break;
    at += point.bytes;
  }
  return at;
}

size_t incomplete_utf8_suffix(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;  // a continuation byte: its first byte is further back
    const size_t wanted = byte >= 0xf0 && byte <= 0xf4  ? 4
                          : byte >= 0xe0 && byte < 0xf0 ? 3
                          : byte >= 0xc2 && byte < 0xe0 ? 2
                                                        : 1;
    if (wanted <= back) return 0;
    // Complete it with the smallest and with the largest continuation byte: if neither result is
    // valid, no other can be.
    for (const char filler : {'\x80', '\xbf'}) {
      std::string trial(text.substr(text.size() - back));
      trial.resize(wanted, filler);
      if (decode_utf8(trial).bytes == wanted) return back;
    }
    return 0;
  }
  return 0;
}

}  // namespace stretto
