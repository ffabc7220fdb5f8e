// What a shell offers while a command is being written. Its script (src/cli/completion) knows no
// word of ours: it asks `stretto __complete WORD...`, so that what it offers is what this program
// takes.
#pragma once

#include <string>
#include <vector>

#include "cli/outline.h"

namespace stretto::cli {

constexpr const char* kComplete = "__complete";

struct Completion {
  Files files = Files::none;  // of what was written, or of what stands behind its =
  std::vector<Candidate> words;
};

// For the last of the words, which is what has been written of it so far. A word that ends in = or
// . is to be continued.
Completion complete(const Outline& root, const std::vector<std::string>& words);

// The shells' form: a line "words", "files" or "directories", then a line "word TAB about" for
// each. Prints nothing where something is wrong: this is no time to say so.
void print_completion(const Outline& root, const std::vector<std::string>& words) noexcept;

// The models of the registry, as candidates.
std::vector<Candidate> known_models();

}  // namespace stretto::cli
