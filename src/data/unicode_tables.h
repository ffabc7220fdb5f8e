// Tables from the Unicode character database; tools/make_unicode_tables.py writes the files that
// hold them.
#pragma once

#include <cstdint>
#include <span>

namespace stretto {

struct CodeRange {
  uint32_t first, last;
};
struct CombiningRange {
  uint32_t first, last, combining_class;
};
struct Decomposition {
  uint32_t code, first;
  uint32_t second = 0;    // 0 for singletons
  uint32_t composes = 0;  // whether (first, second) composes back to code
};

std::span<const CodeRange> unicode_letters();
std::span<const CodeRange> unicode_numbers();
std::span<const CombiningRange> unicode_combining();
std::span<const Decomposition> unicode_decompositions();

}  // namespace stretto
