#include "train/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "model/host_values.h"
#include "parallel/device_comm.h"
#include "train/checkpoint.h"
#include "train/rank_plan.h"

namespace stretto {

namespace {

// One sequence, one token at a time.
RankShape one_token(Config config) {
  config.seq_len = config.micro_batch = config.global_batch = 1;
  RankShape shape = rank_shape(config, {});
  shape.train = false;
  return shape;
}

}  // namespace

Decoder::Decoder(Backend& backend, const Checkpoint& checkpoint, const Config& config,
                 int64_t tokens)
    : backend_(backend),
      vocab_(config.model.vocab),
      tokens_(std::min(tokens, config.model.positions)),
      self_(make_self_comm()),
      comm_(make_device_comm(*self_, backend)),
      gpt_(backend, one_token(config), {comm_.get(), comm_.get(), comm_.get(), nullptr}),
      out_(static_cast<size_t>(vocab_)) {
  load_weights(checkpoint, gpt_);
  const ModelShape& model = config.model;
  const Shape shape{1, tokens_, model.key_heads(), model.head_size()};
  const DType type = gpt_.shape().types().compute;
  const auto bytes = arena_round(static_cast<size_t>(shape.count()) * dtype_size(type));
  const auto layers = static_cast<size_t>(model.layers);
  cache_memory_ = backend.allocate(2 * layers * bytes, "keys and values of the tokens read");
  auto* at = static_cast<char*>(cache_memory_.data());
  for (size_t l = 0; l < layers; ++l, at += 2 * bytes) {
    caches_.push_back({Tensor(at, type, shape), Tensor(at + bytes, type, shape)});
  }
}

const std::vector<float>& Decoder::next(int32_t token) {
  STRETTO_CHECK(position_ < tokens_, "position {} of {}", position_, tokens_);
  if (token < 0 || token >= vocab_) {
    throw Error(ExitCode::bad_data,
                fmt::format("token {} is outside the vocabulary of {}", token, vocab_),
                "use the tokenizer that the model was trained with");
  }
  const ConstTensor logits = gpt_.decode(token, position_, caches_);
  out_ = host_values(backend_, logits.view({logits.count()}).slice(0, vocab_));
  if (!std::all_of(out_.begin(), out_.end(), [](float x) { return std::isfinite(x); })) {
    throw Error(ExitCode::bad_data,
                fmt::format("the model's output after token {} is NaN or infinite", position_),
                "its weights are too large to compute with: take an earlier checkpoint");
  }
  ++position_;
  return out_;
}

int64_t context_limit(const Config& config) {
  const int64_t positions = config.model.positions;
  if (config.model.position_kind == Positions::alibi) return positions;
  return std::min(config.seq_len, positions);
}

const std::vector<float>& RollingDecoder::next(int32_t token) {
  if (decoder_.position() == decoder_.capacity()) {
    forgot_ = true;
    context_.erase(context_.begin(), context_.end() - decoder_.capacity() / 2);
    decoder_.restart();
    for (const int32_t kept : context_) decoder_.next(kept);
  }
  context_.push_back(token);
  return decoder_.next(token);
}

int32_t sample_token(const std::vector<float>& logits, const SamplingOptions& options,
                     uint64_t index) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  };
  if (options.temperature <= 0) return *std::min_element(order.begin(), order.end(), likelier);
  auto kept = static_cast<std::ptrdiff_t>(order.size());
  if (options.top_k > 0) kept = std::min<std::ptrdiff_t>(kept, options.top_k);
  std::partial_sort(order.begin(), order.begin() + kept, order.end(), likelier);
  order.resize(static_cast<size_t>(kept));

  const float most = logits[static_cast<size_t>(order[0])];
  std::vector<double> weights;
  double total = 0;
  for (const int32_t id : order) {
    const double x =
        static_cast<double>(logits[static_cast<size_t>(id)]) - static_cast<double>(most);
    weights.push_back(std::exp(x / options.temperature));
    total += weights.back();
  }
  double sum = 0;
  size_t nucleus = 0;
  while (nucleus < weights.size() && (nucleus == 0 || sum < options.top_p * total)) {
    sum += weights[nucleus++];
  }
  const CounterRng rng(options.seed, stream_of("generate"));
  double left = static_cast<double>(rng.uniform(index)) * sum;
  for (size_t i = 0; i + 1 < nucleus; ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order[nucleus - 1];
}

}  // namespace stretto
