// "Did you mean": the nearest known word.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stretto {

std::string lower(std::string_view text);  // changes ASCII letters only

// The closest candidates, best first, at most `most`; empty if none is close.
std::vector<std::string> nearest_words(std::string_view word,
                                       const std::vector<std::string>& candidates, size_t most = 3);

// "did you mean 'a' or 'b'?", or `otherwise` when nothing is close.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates,
                         const std::string& otherwise);

// "1, 2, 4 or 8"
std::string join_or(const std::vector<std::string>& words);

}  // namespace stretto
