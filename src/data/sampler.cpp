#include "data/sampler.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/random.h"
#include "base/units.h"
#include "data/token_check.h"

namespace stretto {
namespace {

std::string too_few(int64_t tokens) {
  return fmt::format("{} {} too few", counted(tokens, "token"), tokens == 1 ? "is" : "are");
}

}  // namespace

Sampler::Sampler(const TokenSource& source, const SamplerOptions& options)
    : source_(source), options_(options) {
  if (options_.range.end == 0) options_.range.end = source.tokens();
  const TokenRange range = options_.range;
  STRETTO_CHECK(options_.seq_len > 0 && options_.vocab > 0, "seq_len {}, vocab {}",
                options_.seq_len, options_.vocab);
  STRETTO_CHECK(range.begin >= 0 && range.begin <= range.end && range.end <= source.tokens(),
                "range [{}, {}) of {} tokens", range.begin, range.end, source.tokens());
  samples_ = (range.end - range.begin - 1) / options_.seq_len;
  if (samples_ <= 0) {
    throw Error(ExitCode::bad_data,
                fmt::format("{}: {} for one sample of seq_len {} + 1", source.name(),
                            too_few(range.end - range.begin), options_.seq_len),
                "use more text, or a model or run with a shorter seq_len");
  }
}

int64_t Sampler::position_of(int64_t sample) const {
  STRETTO_CHECK(sample >= 0, "sample {}", sample);
  auto index = static_cast<uint64_t>(sample % samples_);
  if (options_.shuffle) {
    // A stream per epoch, different from those of other users of the seed.
    const uint64_t stream = stream_of("sample order") + static_cast<uint64_t>(epoch_of(sample));
    index = permute(index, static_cast<uint64_t>(samples_), options_.seed, stream);
  }
  return options_.range.begin + static_cast<int64_t>(index) * options_.seq_len;
}

void Sampler::read_batch(int64_t first, int64_t count, std::span<int32_t> tokens,
                         std::span<int32_t> targets) const {
  const auto T = static_cast<size_t>(options_.seq_len);
  STRETTO_CHECK(count >= 0 && tokens.size() == static_cast<size_t>(count) * T &&
                    targets.size() == tokens.size(),
                "{} samples of {} into {} and {}", count, T, tokens.size(), targets.size());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t position = position_of(first + i);
    const auto from = tokens.subspan(static_cast<size_t>(i) * T, T);
    const auto to = targets.subspan(static_cast<size_t>(i) * T, T);
    source_.read(position, from);
    source_.read(position + options_.seq_len, to.last(1));
    check_ids(source_, options_.vocab, from, position);
    check_ids(source_, options_.vocab, to.last(1), position + options_.seq_len);
    std::copy(from.begin() + 1, from.end(), to.begin());
  }
}

std::pair<TokenRange, TokenRange> split_tail(const TokenSource& source, int64_t seq_len,
                                             double fraction) {
  STRETTO_CHECK(fraction >= 0 && fraction < 1, "fraction {}", fraction);
  const int64_t total = source.tokens();
  if (fraction == 0) return {{0, total}, {total, total}};
  const int64_t one = seq_len + 1;
  if (total < 2 * one) {
    throw Error(ExitCode::bad_data,
                fmt::format("{}: {} for training and held-out samples of seq_len {} + 1",
                            source.name(), too_few(total), seq_len),
                "use more text, a shorter seq_len, or data.eval_fraction=0");
  }
  const auto wanted = static_cast<int64_t>(static_cast<double>(total) * fraction);
  const int64_t held_out = std::clamp(wanted, one, total - one);
  return {{0, total - held_out}, {total - held_out, total}};
}

}  // namespace stretto
