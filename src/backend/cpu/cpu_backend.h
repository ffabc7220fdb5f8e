// The CPU backend: host memory, a team of threads, SIMD through Highway with run-time dispatch, and
// for each matrix product the library that is fastest for its shape. One file per operator.
//
// Work is divided into pieces whose number depends on the shape alone, never on the number of
// threads, and partial sums are added in piece order. So results do not depend on the number of
// threads.
#pragma once

#include <cstddef>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/gemm.h"
#include "base/parallel_for.h"

namespace stretto {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(int threads);

  const char* name() const override { return "cpu"; }
  int threads() const override { return threads_; }
  void eight_bit_products(bool on) override { eight_bit_ = on; }
  void use_workspace(Tensor shared, Tensor workers) override;
  WorkspaceUse workspace_use() const override;

 private:
  Buffer do_allocate(size_t bytes, const char* label) override;
  void do_copy(Tensor dst, ConstTensor src) override;
  void do_copy_from_host(Tensor dst, const void* src) override;
  void do_copy_to_host(void* dst, ConstTensor src) override;
  void do_fill_zero(Tensor t) override;
  void do_convert(Tensor dst, ConstTensor src) override;
  void do_embedding_forward(Tensor out, ConstTensor tokens, ConstTensor wte, ConstTensor wpe,
                            int64_t vocab_begin, int64_t first_position) override;
  void do_embedding_backward(Tensor dwte, Tensor dwpe, ConstTensor dout, ConstTensor tokens,
                             int64_t vocab_begin, int64_t first_position) override;
  void do_layernorm_forward(Tensor sum, Tensor out, Tensor mean, Tensor rstd, ConstTensor a,
                            ConstTensor b, ConstTensor weight, ConstTensor bias) override;
  void do_layernorm_backward(Tensor dinp, Tensor dweight, Tensor dbias, ConstTensor dout,
                             ConstTensor inp, ConstTensor mean, ConstTensor rstd,
                             ConstTensor weight, Grad mode, Tensor dinp_sums) override;
  void do_linear_forward(Tensor out, ConstTensor inp, ConstTensor weight, ConstTensor bias,
                         const LinearOptions& options) override;
  void do_linear_backward_input(Tensor dinp, ConstTensor dout, ConstTensor weight,
                                const LinearInputGradOptions& options) override;
  void do_linear_backward_weight(Tensor dweight, Tensor dbias, ConstTensor inp, ConstTensor dout,
                                 Grad mode) override;
  void do_gelu_forward(Tensor out, ConstTensor pre, Gelu form) override;
  void do_add(Tensor out, ConstTensor a, ConstTensor b) override;
  void do_attention_forward(Tensor out, Tensor lse, ConstTensor qkv,
                            const AttentionOptions& options) override;
  void do_attention_backward(Tensor dqkv, ConstTensor dout, ConstTensor qkv, ConstTensor out,
                             ConstTensor lse, const AttentionOptions& options,
                             Tensor dq_sums) override;
  void do_qkv_bias_backward(Tensor dbias, ConstTensor proj_weight, ConstTensor dproj_bias) override;
  void do_attention_decode(Tensor out, Tensor k_cache, Tensor v_cache, ConstTensor qkv,
                           int64_t position, const AttentionOptions& options) override;
  void do_cross_entropy_forward(Tensor lse, Tensor target, ConstTensor logits, ConstTensor targets,
                                VocabRange vocab) override;
  void do_combine_lse(Tensor lse, ConstTensor parts) override;
  void do_cross_entropy_loss(Tensor loss_sum, ConstTensor lse, ConstTensor target,
                             ConstTensor targets) override;
  void do_cross_entropy_backward(Tensor logits, ConstTensor lse, ConstTensor targets,
                                 ConstTensor scale, VocabRange vocab) override;
  void do_gradient_stats(Tensor stats, ConstTensor grad) override;
  void do_checksum(Tensor sum, ConstTensor values) override;
  void do_clip_control(Tensor control, ConstTensor stats, float clip, float grad_scale) override;
  void do_adamw(Tensor weight, Tensor master, Tensor m, Tensor v, ConstTensor grad,
                ConstTensor control, const AdamWOptions& options) override;

  // The operand as an 8-bit product would see it: a copy, valid until the next use of `slot`.
  ConstTensor operand(ConstTensor t, DType eight_bit_format, int slot);

  int threads_;
  bool eight_bit_ = false;  // emulated: operands are rounded, products are the usual ones
  std::vector<std::byte> rounded_[2];
  GemmContext gemm_;
};

}  // namespace stretto
