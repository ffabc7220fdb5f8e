// What tells one corpus from another without reading all of it.
#pragma once

#include <cstdint>
#include <string>

#include "data/token_source.h"

namespace stretto {

struct DataMark {
  int64_t tokens = 0;  // 0: nothing is known
  std::string sample;  // digest of ids at places spread over it
  std::string format;  // of its file, as the source says; the same tokens may lie in another

  bool operator==(const DataMark& other) const {
    return tokens == other.tokens && sample == other.sample;
  }
};

DataMark mark_of(const TokenSource& source);

}  // namespace stretto
