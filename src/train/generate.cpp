#include "train/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "model/host_values.h"

namespace stretto {

Decoder::Decoder(Backend& backend, const Checkpoint& checkpoint, const ModelShape& model,
                 int64_t tokens)
    : backend_(backend), model_(model), tokens_(std::min(tokens, model.positions)) {
  const int64_t C = model.hidden, H = model.key_heads(), D = model.head_size();
  layers_.resize(static_cast<size_t>(model.layers));
  for (Layer& layer : layers_) {
    layer.k_cache = take({1, tokens_, H, D});
    layer.v_cache = take({1, tokens_, H, D});
  }
  for (const ParameterSpec& spec : parameter_list(model)) {
    const Tensor tensor = weight(checkpoint, spec);
    if (spec.role == Role::layer) {
      layers_[static_cast<size_t>(spec.layer)].w[spec.weight] = tensor;
    } else {
      end(spec.name) = tensor;
    }
  }
  if (model.tied_embedding) head_ = wte_;
  token_ = take({1, 1}, DType::i32);
  stream_ = take({1, C});
  stream2_ = take({1, C});
  norm_ = take({1, C});
  branch_ = take({1, C});
  qkv_ = take({1, model.qkv_width()});
  att_ = take({1, model.q_width()});
  act_ = take({1, model.ffn});
  mean_ = take({1});
  rstd_ = take({1});
  logits_ = take({1, model.vocab});
  out_.resize(static_cast<size_t>(model.vocab));
}

Tensor Decoder::take(Shape shape, DType type) {
  const size_t bytes = static_cast<size_t>(shape.count()) * dtype_size(type);
  buffers_.push_back(backend_.allocate(bytes, "generate"));
  return {buffers_.back().data(), type, shape};
}

// The member that holds a parameter outside the layers.
ConstTensor& Decoder::end(const std::string& name) {
  const std::pair<const char*, ConstTensor*> ends[] = {{"wte", &wte_},
                                                       {"wpe", &wpe_},
                                                       {"ln_f.weight", &norm_weight_},
                                                       {"ln_f.bias", &norm_bias_},
                                                       {"head", &head_}};
  for (const auto& [own, tensor] : ends) {
    if (name == own) return *tensor;
  }
  throw Error(ExitCode::internal, "the decoder has no place for " + name);
}

Tensor Decoder::weight(const Checkpoint& checkpoint, const ParameterSpec& spec) {
  const Shape shape = spec.vector() ? Shape{spec.rows} : Shape{spec.rows, spec.columns};
  const TensorReader reader = checkpoint.reader(spec.name);
  const auto wanted = spec.vector() ? std::vector<int64_t>{spec.rows}
                                    : std::vector<int64_t>{spec.rows, spec.columns};
  if (reader.shape() != wanted) {
    throw Error(
        ExitCode::bad_data,
        fmt::format("{}: {} does not have the shape of its model", checkpoint.path(), spec.name),
        "use another checkpoint");
  }
  std::vector<float> values(static_cast<size_t>(reader.count()));
  reader.read(0, reader.count(), values.data());
  require_finite(values.data(), reader.count(), checkpoint.path(), spec.name);
  const Tensor tensor = take(shape);
  assign_host_values(backend_, tensor, values.data());
  return tensor;
}

void Decoder::run_layer(const Layer& layer, bool first) {
  const PerWeight<ConstTensor>& w = layer.w;
  const int64_t C = model_.hidden, H = model_.heads, D = model_.head_size();
  if (first) {
    backend_.layernorm_forward(norm_, mean_, rstd_, stream_, w[Weight::norm1],
                               w[Weight::norm1_bias]);
  } else {
    backend_.residual_layernorm_forward(stream_, norm_, mean_, rstd_, stream2_, branch_,
                                        w[Weight::norm1], w[Weight::norm1_bias]);
  }
  backend_.linear_forward(qkv_, norm_, w[Weight::qkv], w[Weight::qkv_bias]);
  AttentionOptions options;
  options.heads = options.total_heads = H;
  options.alibi = model_.position_kind == Positions::alibi;
  backend_.attention_decode(att_.view({1, 1, H, D}), layer.k_cache, layer.v_cache,
                            qkv_.view({1, 1, 3, H, D}), position_, options);
  backend_.linear_forward(branch_, att_.view({1, C}), w[Weight::proj], w[Weight::proj_bias]);
  backend_.residual_layernorm_forward(stream2_, norm_, mean_, rstd_, stream_, branch_,
                                      w[Weight::norm2], w[Weight::norm2_bias]);
  backend_.linear_forward(act_, norm_, w[Weight::up], w[Weight::up_bias],
                          {.gelu = gelu_of(model_.mlp), .pre = {}});
  backend_.linear_forward(branch_, act_, w[Weight::down], w[Weight::down_bias]);
}

const std::vector<float>& Decoder::next(int32_t token) {
  STRETTO_CHECK(position_ < tokens_, "position {} of {}", position_, tokens_);
  if (token < 0 || token >= model_.vocab) {
    throw Error(ExitCode::bad_data,
                fmt::format("token {} is outside the vocabulary of {}", token, model_.vocab),
                "use the tokenizer that the model was trained with");
  }
  backend_.copy_from_host(token_, &token);
  backend_.embedding_forward(stream_.view({1, 1, model_.hidden}), token_, wte_, wpe_, 0, position_);
  for (size_t l = 0; l < layers_.size(); ++l) run_layer(layers_[l], l == 0);
  backend_.residual_layernorm_forward(stream_, norm_, mean_, rstd_, stream2_, branch_, norm_weight_,
                                      norm_bias_);
  backend_.linear_forward(logits_, norm_, head_, {});
  backend_.copy_to_host(out_.data(), logits_);
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
