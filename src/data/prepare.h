// From a corpus to a token file: reads, encodes on many threads, and writes in order.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "data/corpus.h"
#include "data/token_file.h"
#include "data/tokenizer.h"

namespace stretto {

struct PrepareProgress {
  int64_t bytes = 0;  // of input
  int64_t tokens = 0;
  int64_t documents = 0;
};

// Encodes every document, appends `end_of_document` to each when given, and writes them in the
// order of the corpus; the result does not depend on `threads`. Memory: a few blocks per thread.
// `progress` is called under a lock after each block. Calls writer.finish().
PrepareProgress prepare_tokens(CorpusReader& corpus, const Tokenizer& tokenizer,
                               std::optional<int32_t> end_of_document, TokenWriter& writer,
                               int threads,
                               const std::function<void(const PrepareProgress&)>& progress = {});

}  // namespace stretto
