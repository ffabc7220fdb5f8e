// Tells one corpus from another without reading all of it.
#pragma once

#include <cstdint>
#include <string>

#include "data/token_source.h"

namespace stretto {

struct DataMark {
  int64_t tokens = 0;  // 0: nothing is known
  std::string sample;  // digest of token ids at places spread over the corpus
  std::string format;  // of its file; not compared: the same tokens may be stored in another format
  // How many of the tokens are trained on, from the first; the rest is held out. Not compared, and
  // 0 if unknown.
  int64_t trained = 0;

  bool operator==(const DataMark& other) const {
    return tokens == other.tokens && sample == other.sample;
  }
};

DataMark mark_of(const TokenSource& source);

}  // namespace stretto
