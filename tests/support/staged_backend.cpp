#include "support/staged_backend.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <vector>

#include "backend/cuda/cuda_options.h"

namespace stretto::test {
namespace {

constexpr size_t kGuard = 256;
constexpr uint8_t kGuardByte = 0xa5;

// The device copies of one operator's operands. Two operands at the same host address share one.
class Staged {
 public:
  explicit Staged(Backend& device) : device_(device) {}

  ConstTensor in(ConstTensor host) { return place(host, false); }
  Tensor out(ConstTensor host) { return place(host, true); }

  void finish() {
    for (auto& [address, copy] : copies_) {
      std::vector<uint8_t> bytes(copy.bytes + 2 * kGuard);
      device_.copy_to_host(bytes.data(), whole(copy));
      for (size_t i = 0; i < kGuard; ++i) {
        STRETTO_CHECK(bytes[i] == kGuardByte && bytes[kGuard + copy.bytes + i] == kGuardByte,
                      "a device operand of {} bytes was written beyond its ends", copy.bytes);
      }
      if (copy.written) {
        std::memcpy(const_cast<void*>(address), bytes.data() + kGuard, copy.bytes);
      }
    }
  }

 private:
  struct Copy {
    Buffer buffer;
    size_t bytes = 0;
    bool written = false;
  };

  static Tensor whole(const Copy& copy) {
    return {copy.buffer.data(), DType::u8, {static_cast<int64_t>(copy.bytes + 2 * kGuard)}};
  }

  Tensor place(ConstTensor host, bool written) {
    if (host.none()) return {};
    Copy& copy = copies_[host.data()];
    if (copy.buffer.data() == nullptr) {
      copy.bytes = host.bytes();
      copy.buffer = device_.allocate(copy.bytes + 2 * kGuard, "operand");
      std::vector<uint8_t> bytes(copy.bytes + 2 * kGuard, kGuardByte);
      std::memcpy(bytes.data() + kGuard, host.data(), copy.bytes);
      device_.copy_from_host(whole(copy), bytes.data());
    }
    copy.written |= written;
    return {static_cast<char*>(copy.buffer.data()) + kGuard, host.dtype(), host.shape()};
  }

  Backend& device_;
  std::map<const void*, Copy> copies_;
};

class StagedBackend final : public Backend {
 public:
  explicit StagedBackend(std::unique_ptr<Backend> device) : device_(std::move(device)) {}
  const char* name() const override { return device_->name(); }
  void synchronize() override { device_->synchronize(); }
  bool sums_stream_columns() const override { return device_->sums_stream_columns(); }
  bool adds_in_products() const override { return device_->adds_in_products(); }
  void eight_bit_products(bool on) override { device_->eight_bit_products(on); }

 private:
  template <typename F>
  void stage(F&& f) {
    Staged s(*device_);
    f(s);
    s.finish();
  }

  Buffer do_allocate(size_t bytes, const char*) override {
    return {std::calloc(1, bytes), bytes, [](void* p) { std::free(p); }};
  }
  void do_copy(Tensor dst, ConstTensor src) override {
    stage([&](Staged& s) { device_->copy(s.out(dst), s.in(src)); });
  }
  void do_copy_from_host(Tensor dst, const void* src) override {
    stage([&](Staged& s) { device_->copy_from_host(s.out(dst), src); });
  }
  void do_copy_to_host(void* dst, ConstTensor src) override {
    stage([&](Staged& s) { device_->copy_to_host(dst, s.in(src)); });
  }
  void do_fill_zero(Tensor t) override {
    stage([&](Staged& s) { device_->fill_zero(s.out(t)); });
  }
  void do_convert(Tensor dst, ConstTensor src) override {
    stage([&](Staged& s) { device_->convert(s.out(dst), s.in(src)); });
  }
  void do_embedding_forward(Tensor out, ConstTensor tokens, ConstTensor wte, ConstTensor wpe,
                            int64_t vocab_begin, int64_t first_position) override {
    stage([&](Staged& s) {
      device_->embedding_forward(s.out(out), s.in(tokens), s.in(wte), s.in(wpe), vocab_begin,
                                 first_position);
    });
  }
  void do_embedding_backward(Tensor dwte, Tensor dwpe, ConstTensor dout, ConstTensor tokens,
                             int64_t vocab_begin, int64_t first_position) override {
    stage([&](Staged& s) {
      device_->embedding_backward(s.out(dwte), s.out(dwpe), s.in(dout), s.in(tokens), vocab_begin,
                                  first_position);
    });
  }
  void do_layernorm_forward(Tensor sum, Tensor out, Tensor mean, Tensor rstd, ConstTensor a,
                            ConstTensor b, ConstTensor weight, ConstTensor bias) override {
    stage([&](Staged& s) {
      device_->residual_layernorm_forward(s.out(sum), s.out(out), s.out(mean), s.out(rstd), s.in(a),
                                          s.in(b), s.in(weight), s.in(bias));
    });
  }
  void do_layernorm_backward(Tensor dinp, Tensor dweight, Tensor dbias, ConstTensor dout,
                             ConstTensor inp, ConstTensor mean, ConstTensor rstd,
                             ConstTensor weight, Grad mode, Tensor dinp_sums) override {
    stage([&](Staged& s) {
      device_->layernorm_backward(s.out(dinp), s.out(dweight), s.out(dbias), s.in(dout), s.in(inp),
                                  s.in(mean), s.in(rstd), s.in(weight), mode, s.out(dinp_sums));
    });
  }
  void do_linear_forward(Tensor out, ConstTensor inp, ConstTensor weight, ConstTensor bias,
                         const LinearOptions& options) override {
    stage([&](Staged& s) {
      LinearOptions staged = options;
      staged.pre = s.out(options.pre);
      staged.addend = s.in(options.addend);
      device_->linear_forward(s.out(out), s.in(inp), s.in(weight), s.in(bias), staged);
    });
  }
  void do_linear_backward_input(Tensor dinp, ConstTensor dout, ConstTensor weight,
                                const LinearInputGradOptions& options) override {
    stage([&](Staged& s) {
      LinearInputGradOptions staged = options;
      staged.pre = s.in(options.pre);
      staged.dbias = s.out(options.dbias);
      staged.act = s.out(options.act);
      device_->linear_backward_input(s.out(dinp), s.in(dout), s.in(weight), staged);
    });
  }
  void do_linear_backward_weight(Tensor dweight, Tensor dbias, ConstTensor inp, ConstTensor dout,
                                 Grad mode) override {
    stage([&](Staged& s) {
      device_->linear_backward_weight(s.out(dweight), s.out(dbias), s.in(inp), s.in(dout), mode);
    });
  }
  void do_gelu_forward(Tensor out, ConstTensor pre, Gelu form) override {
    stage([&](Staged& s) { device_->gelu_forward(s.out(out), s.in(pre), form); });
  }
  void do_add(Tensor out, ConstTensor a, ConstTensor b) override {
    stage([&](Staged& s) { device_->add(s.out(out), s.in(a), s.in(b)); });
  }
  void do_attention_forward(Tensor out, Tensor lse, ConstTensor qkv,
                            const AttentionOptions& options) override {
    stage(
        [&](Staged& s) { device_->attention_forward(s.out(out), s.out(lse), s.in(qkv), options); });
  }
  void do_attention_backward(Tensor dqkv, ConstTensor dout, ConstTensor qkv, ConstTensor out,
                             ConstTensor lse, const AttentionOptions& options,
                             Tensor dq_sums) override {
    stage([&](Staged& s) {
      device_->attention_backward(s.out(dqkv), s.in(dout), s.in(qkv), s.in(out), s.in(lse), options,
                                  s.out(dq_sums));
    });
  }
  void do_qkv_bias_backward(Tensor dbias, ConstTensor proj_weight,
                            ConstTensor dproj_bias) override {
    stage([&](Staged& s) {
      device_->qkv_bias_backward(s.out(dbias), s.in(proj_weight), s.in(dproj_bias));
    });
  }
  void do_attention_decode(Tensor out, Tensor k_cache, Tensor v_cache, ConstTensor qkv,
                           int64_t position, const AttentionOptions& options) override {
    stage([&](Staged& s) {
      device_->attention_decode(s.out(out), s.out(k_cache), s.out(v_cache), s.in(qkv), position,
                                options);
    });
  }
  void do_cross_entropy_forward(Tensor lse, Tensor target, ConstTensor logits, ConstTensor targets,
                                VocabRange vocab) override {
    stage([&](Staged& s) {
      device_->cross_entropy_forward(s.out(lse), s.out(target), s.in(logits), s.in(targets), vocab);
    });
  }
  void do_combine_lse(Tensor lse, ConstTensor parts) override {
    stage([&](Staged& s) { device_->combine_lse(s.out(lse), s.in(parts)); });
  }
  void do_cross_entropy_loss(Tensor loss_sum, ConstTensor lse, ConstTensor target,
                             ConstTensor targets) override {
    stage([&](Staged& s) {
      device_->cross_entropy_loss(s.out(loss_sum), s.in(lse), s.in(target), s.in(targets));
    });
  }
  void do_cross_entropy_backward(Tensor logits, ConstTensor lse, ConstTensor targets,
                                 ConstTensor scale, VocabRange vocab) override {
    stage([&](Staged& s) {
      device_->cross_entropy_backward(s.out(logits), s.in(lse), s.in(targets), s.in(scale), vocab);
    });
  }
  bool fuses_cross_entropy(const Tensor& logits) const override {
    return device_->name() == std::string_view("cuda") && logits.last() > 0;
  }
  void do_cross_entropy_in_place(Tensor lse, Tensor target, Tensor loss_sum, Tensor logits,
                                 ConstTensor targets, ConstTensor scale,
                                 VocabRange vocab) override {
    stage([&](Staged& s) {
      device_->cross_entropy_in_place(s.out(lse), s.out(target), s.out(loss_sum), s.out(logits),
                                      s.in(targets), s.in(scale), vocab);
    });
  }
  bool do_linear_loss(const LinearLoss& l) override {
    stage([&](Staged& s) {
      device_->linear_loss({.dinp = s.out(l.dinp),
                            .dweight = s.out(l.dweight),
                            .loss_sum = s.out(l.loss_sum),
                            .inp = s.in(l.inp),
                            .weight = s.in(l.weight),
                            .targets = s.in(l.targets),
                            .scale = s.in(l.scale),
                            .vocab = l.vocab,
                            .mode = l.mode,
                            .logits = s.out(l.logits),
                            .lse = s.out(l.lse),
                            .target = s.out(l.target)});
    });
    return true;
  }
  void do_gradient_stats(Tensor stats, ConstTensor grad) override {
    stage([&](Staged& s) { device_->gradient_stats(s.out(stats), s.in(grad)); });
  }
  void do_sum_stats(Tensor sum, ConstTensor rows) override {
    stage([&](Staged& s) { device_->sum_stats(s.out(sum), s.in(rows)); });
  }
  void do_checksum(Tensor sum, ConstTensor values) override {
    stage([&](Staged& s) { device_->checksum(s.out(sum), s.in(values)); });
  }
  void do_clip_control(Tensor control, ConstTensor stats, float clip, float grad_scale) override {
    stage([&](Staged& s) { device_->clip_control(s.out(control), s.in(stats), clip, grad_scale); });
  }
  void do_adamw(Tensor weight, Tensor master, Tensor m, Tensor v, ConstTensor grad,
                ConstTensor control, const AdamWOptions& options) override {
    stage([&](Staged& s) {
      device_->adamw(s.out(weight), s.out(master), s.out(m), s.out(v), s.in(grad), s.in(control),
                     options);
    });
  }

  void do_adamw_segments(std::span<const AdamWSegment> segments, ConstTensor control,
                         const AdamWOptions& options) override {
    stage([&](Staged& s) {
      std::vector<AdamWSegment> staged;
      for (const AdamWSegment& x : segments) {
        staged.push_back({s.out(x.weight), s.out(x.master), s.out(x.m), s.out(x.v), s.in(x.grad),
                          x.decay, x.first_index});
      }
      device_->adamw(staged, s.in(control), options);
    });
  }

  std::unique_ptr<Backend> device_;
};

}  // namespace

std::unique_ptr<Backend> make_staged_backend(std::unique_ptr<Backend> device) {
  return std::make_unique<StagedBackend>(std::move(device));
}

bool testing_cuda() {
  const char* device = std::getenv("STRETTO_TEST_DEVICE");
  return device != nullptr && std::string_view(device) == "cuda";
}

std::unique_ptr<Backend> make_backend(int threads) {
  if (!testing_cuda()) return make_cpu_backend(threads);
  CudaOptions options;
  options.tune = std::getenv("STRETTO_TEST_TUNE") != nullptr;
  if (const char* attention = std::getenv("STRETTO_TEST_ATTENTION")) options.attention = attention;
  return make_staged_backend(make_cuda_backend(0, options));
}

}  // namespace stretto::test
