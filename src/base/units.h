// Numbers with units, in both directions: "2M" tokens, "80GiB", "30min"; and numbers in the forms
// that people read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stretto {

// Counts take k, M, G/B, T (powers of 1000). Sizes take B, kB, MB, GB, TB and KiB, MiB, GiB, TiB.
// Durations take ms, s, min, h, d. All throw Error (bad_config) naming the text and the forms.
int64_t parse_count(std::string_view text);
int64_t parse_bytes(std::string_view text);
double parse_seconds(std::string_view text);

std::string format_count(double value);                 // 124.4M
std::string format_digits(double value, int digits);    // 0.1235, 12.35, 1235; no powers of ten
std::string format_change(double share, int decimals);  // +5 %, -0.3 %; 0 % if it rounds to zero
std::string format_bytes(double bytes);                 // 3.21 GiB
std::string format_seconds(double seconds);             // 1.50 s, 2 min 03 s, 3 h 04 min
std::string with_commas(int64_t value);                 // 124,439,808
std::string counted(int64_t count, std::string_view thing);  // 1 token, 2 tokens, 2 batches

}  // namespace stretto
