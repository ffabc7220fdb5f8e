// What tells one corpus from another without reading all of it.
#pragma once

#include <cstdint>
#include <string>

#include "data/token_source.h"

namespace stretto {

struct DataMark {
  int64_t tokens = 0;  // 0: nothing is known
  std::string sample;  // digest of ids at places spread over it

  bool operator==(const DataMark&) const = default;
};

DataMark mark_of(const TokenSource& source);

}  // namespace stretto
