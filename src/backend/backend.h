// The backend contract: the whole vocabulary of a GPT training step, in about 25 coarse operators.
//
// Public functions check shapes and types once, count FLOPs and bytes into profile(), and hand over
// to a private virtual. Arguments come as outputs, inputs, options; the gradient of x is dx.
// Optional operands are `none` (default-constructed) tensors. Sizes come from the tensors.
//
// Types: activations, weights and activation gradients share one compute type (f32, bf16 or f16);
// LayerNorm statistics, lse, losses, and everything marked f32 stay f32. Weight gradients (dweight,
// dbias) are f32, or the compute type in pure bf16. All accumulation happens in f32 or wider.
//
// Determinism: for a given shape the result is a pure function of the inputs. It does not depend on
// the number of threads, on timing, or on addresses.
//
// An operator may return before its work is done (CUDA); order between calls of one lane is kept.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/profile.h"
#include "base/gelu.h"
#include "tensor/arena.h"
#include "tensor/tensor.h"

namespace stretto {

struct TraceSlice;

enum class Grad { overwrite, accumulate };
enum class Lane { compute, comm, copy };

struct Event {
  uint64_t id = 0;
};

struct AttentionOptions {
  int64_t heads = 0;  // heads in this shard
  bool alibi = false;
  int64_t first_head = 0;   // global index of the first head (for ALiBi slopes)
  int64_t total_heads = 0;  // heads of the whole model (for ALiBi slopes)
};

struct LinearOptions {
  Gelu gelu = Gelu::none;  // out = gelu(inp W^T + b)
  Tensor pre = {};         // with gelu: receives its input, for the backward pass; may be none
  // If given, is added to the result; only without gelu, and not `out` itself.
  ConstTensor addend = {};
};

struct LinearInputGradOptions {
  Gelu gelu = Gelu::none;  // dinp is multiplied by gelu'(pre), fused
  ConstTensor pre;
  Tensor dbias;  // if given, column sums of the final dinp are accumulated here
  Tensor act;    // if given (with pre), receives gelu(pre); may be pre itself
  Grad mode = Grad::overwrite;
};

// The columns of the vocabulary in a logits shard: [begin, begin + shard columns). Columns at or
// beyond `size` are padding: never predicted, and without gradient.
struct VocabRange {
  int64_t begin = 0;
  int64_t size = 0;
};

// The head in training, if its logits are not cut over ranks.
struct LinearLoss {
  Tensor dinp, dweight;  // dinp may be inp
  Tensor loss_sum;       // the loss is added to it
  ConstTensor inp, weight, targets, scale;
  VocabRange vocab;
  Grad mode = Grad::overwrite;  // of dweight
  Tensor logits, lse, target;   // scratch memory: its content afterwards is undefined
};

struct AdamWOptions {
  float lr = 0;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float eps = 1e-8f;
  float weight_decay = 0;
  int64_t step = 1;          // 1 for the first update (bias correction)
  uint64_t seed = 0;         // for the stochastic rounding of bf16 weights without master
  uint64_t first_index = 0;  // global index of element 0 (for stochastic rounding)
};

// A stretch of parameters that the optimizer treats alike. Sizes as adamw() requires.
struct AdamWSegment {
  Tensor weight, master, m, v;
  ConstTensor grad;
  bool decay = false;
  uint64_t first_index = 0;
};

// A choice that affects the speed of a step and the order of its sums, but never what is computed.
struct Tunable {
  std::string name;
  int options = 1;
  int now = 0;
};

struct WorkspaceUse {
  size_t used = 0;    // bytes of the workspace that operators have needed so far
  size_t beyond = 0;  // bytes allocated in addition, because the workspace was too small
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const char* name() const = 0;  // "cpu", "cuda"
  virtual int threads() const { return 1; }

  // --- memory and order ----------------------------------------------------------------------
  Buffer allocate(size_t bytes, const char* label);  // throws out_of_memory with the size
  void copy(Tensor dst, ConstTensor src);            // same type and count, this backend's memory
  void copy_from_host(Tensor dst, const void* src);  // src may be reused after the return
  void copy_to_host(void* dst, ConstTensor src);     // complete after the return
  void fill_zero(Tensor t);
  void convert(Tensor dst, ConstTensor src);  // between element types, round to nearest
  // Host memory that the device can copy to and from by itself (pinned, with CUDA).
  Buffer allocate_host(size_t bytes, const char* label);
  // These copies are queued on a lane. `host` must be in an allocate_host() buffer, and neither
  // side may be touched until the lane has done them (record, wait, synchronize).
  void start_copy_to_host(Lane lane, void* host, ConstTensor src);
  void start_copy_from_host(Lane lane, Tensor dst, const void* host);
  virtual void synchronize() {}  // returns when all lanes are idle
  virtual Event record(Lane) { return {}; }
  virtual void wait(Lane, Event) {}    // the lane continues after the event, the caller at once
  virtual void wait_on_host(Event) {}  // returns after the event; later work may still run
  virtual bool host_memory() const { return true; }  // tensors can be read by the CPU
  // Memory for operators while they run: one part for all threads, and one row per thread. If there
  // is none, or too little, the backend allocates the rest, once.
  virtual void use_workspace(Tensor /*shared*/, Tensor /*workers*/) {}
  virtual WorkspaceUse workspace_use() const { return {}; }
  // Measures device times per operator; profile() has them after the next synchronize(). The CPU
  // always measures.
  virtual void time_operators(bool) {}
  // What is queued between the two calls is a task (TaskSlice): profilers see its name, and a
  // traced step a slice at the time at which the device does it. True if it will. Tasks are not
  // nested.
  virtual bool begin_task(const TraceSlice&) { return false; }
  virtual void end_task() {}
  // For amp_fp8: from now on, linear operators with bf16 operands may round these to 8 bits (CUDA,
  // if all sizes are multiples of 16). The model turns it off for the head.
  virtual void eight_bit_products(bool) {}
  // Runs `work`, which must queue the same operators on the same tensors whenever `key` is the
  // same, and must not wait for anything. A backend may replay what an earlier call has queued
  // instead; then the result is false.
  virtual bool repeat(uint64_t key, const std::function<void()>& work);
  // The choices met so far, if the backend was made to collect them. set_tunables() takes one
  // option for each, in their order; remember_tunables() stores the options set last for later
  // runs.
  virtual std::vector<Tunable> tunables() { return {}; }
  virtual void set_tunables(std::span<const int>) {}
  virtual void remember_tunables() {}
  // Device memory that this process uses now, with workspaces and the driver's own memory; 0 if
  // tensors are in host memory.
  virtual size_t device_bytes() const { return 0; }

  // --- operators -----------------------------------------------------------------------------
  // out (B, T, C) = wte[token - vocab.begin] + wpe[t + first_position]; tokens of other shards
  // give zero. tokens: (B, T) i32, checked by the loader to lie inside the vocabulary.
  void embedding_forward(Tensor out, ConstTensor tokens, ConstTensor wte, ConstTensor wpe,
                         int64_t vocab_begin = 0, int64_t first_position = 0);
  // Accumulates into dwte and dwpe (either may be none), in token order.
  void embedding_backward(Tensor dwte, Tensor dwpe, ConstTensor dout, ConstTensor tokens,
                          int64_t vocab_begin = 0, int64_t first_position = 0);

  // LayerNorm over the last dim, with eps 1e-5. mean, rstd: (rows) f32. bias may be none.
  void layernorm_forward(Tensor out, Tensor mean, Tensor rstd, ConstTensor inp, ConstTensor weight,
                         ConstTensor bias);
  // sum = a + b, then LayerNorm of sum, in one pass.
  void residual_layernorm_forward(Tensor sum, Tensor out, Tensor mean, Tensor rstd, ConstTensor a,
                                  ConstTensor b, ConstTensor weight, ConstTensor bias);
  // dweight and dbias accumulate. dinp is written as `mode` says (accumulate = add to the residual
  // stream). Column sums of dinp are added to dinp_sums, which may be none, and must be unless
  // sums_stream_columns().
  void layernorm_backward(Tensor dinp, Tensor dweight, Tensor dbias, ConstTensor dout,
                          ConstTensor inp, ConstTensor mean, ConstTensor rstd, ConstTensor weight,
                          Grad mode, Tensor dinp_sums = {});
  // Whether layernorm_backward() can sum the columns of its result, which is the bias gradient of
  // the product that feeds the residual stream.
  virtual bool sums_stream_columns() const { return false; }

  // Whether it is faster to add a product to the residual stream in linear_forward() than in the
  // LayerNorm that follows.
  virtual bool adds_in_products() const { return false; }

  // out (rows, N) = inp (rows, K) weight^T + bias; weight (N, K) as PyTorch stores it.
  void linear_forward(Tensor out, ConstTensor inp, ConstTensor weight, ConstTensor bias,
                      const LinearOptions& options = {});
  // dinp (rows, K) = dout (rows, N) weight.
  void linear_backward_input(Tensor dinp, ConstTensor dout, ConstTensor weight,
                             const LinearInputGradOptions& options = {});
  // dweight (N, K) = dout^T inp; dbias (N) = column sums of dout (may be none). Both as `mode`.
  void linear_backward_weight(Tensor dweight, Tensor dbias, ConstTensor inp, ConstTensor dout,
                              Grad mode);

  // Both of the above; what they compute from dout is computed once.
  void linear_backward(Tensor dinp, Tensor dweight, Tensor dbias, ConstTensor dout, ConstTensor inp,
                       ConstTensor weight, const LinearInputGradOptions& options, Grad mode);

  void gelu_forward(Tensor out, ConstTensor pre, Gelu form);
  void add(Tensor out, ConstTensor a, ConstTensor b);

  // Causal attention. qkv: (B, T, 3, H, D), out: (B, T, H, D), lse: (B, H, T) f32.
  void attention_forward(Tensor out, Tensor lse, ConstTensor qkv, const AttentionOptions& options);
  // If given, dq_sums (H D) accumulates the column sums of dq.
  void attention_backward(Tensor dqkv, ConstTensor dout, ConstTensor qkv, ConstTensor out,
                          ConstTensor lse, const AttentionOptions& options, Tensor dq_sums = {});
  // What attention_backward() leaves of the gradient (3 C) of the qkv product's bias, from that of
  // the proj product, without dk and dv.
  //
  // The part of the queries, the column sums of dq, is left as it is. A bias of the keys moves all
  // scores of a row alike and so has no gradient: its part is left as it is, too. A bias of the
  // values reaches `out` unchanged, since a row's probabilities sum to one: its part becomes
  // proj_weight^T dproj_bias.
  void qkv_bias_backward(Tensor dbias, ConstTensor proj_weight, ConstTensor dproj_bias);
  // One new token per sequence: qkv (B, 1, 3, H, D). Its key and value are stored at `position` of
  // the caches (B, Tmax, H, D), then its query attends to them.
  void attention_decode(Tensor out, Tensor k_cache, Tensor v_cache, ConstTensor qkv,
                        int64_t position, const AttentionOptions& options);

  // Row statistics of a logits shard (rows, columns): lse (rows) f32, and target (rows) f32, which
  // is the target's logit, or 0 if it is in another shard. targets: (rows) i32, negative = ignore.
  void cross_entropy_forward(Tensor lse, Tensor target, ConstTensor logits, ConstTensor targets,
                             VocabRange vocab);
  // Combines the lse of `parts` shards, (parts, rows) -> (rows).
  void combine_lse(Tensor lse, ConstTensor parts);
  // loss_sum[0] (f64) += sum of (lse - target) over rows that count.
  void cross_entropy_loss(Tensor loss_sum, ConstTensor lse, ConstTensor target,
                          ConstTensor targets);
  // In place: logits become dlogits = (softmax - onehot) * scale[0]; scale: (1) f32.
  void cross_entropy_backward(Tensor logits, ConstTensor lse, ConstTensor targets,
                              ConstTensor scale, VocabRange vocab);

  // The three above in one call, for logits that are not cut: lse, target, loss and gradient of
  // each row, in one pass if the backend can.
  void cross_entropy_in_place(Tensor lse, Tensor target, Tensor loss_sum, Tensor logits,
                              ConstTensor targets, ConstTensor scale, VocabRange vocab);

  // The head in training: logits, their loss and its gradients. Does what linear_forward,
  // cross_entropy_in_place and linear_backward do one after the other.
  void linear_loss(const LinearLoss& loss);

  // stats (3) f64 += { sum of squares, zeros, NaN or infinite }. With stats (n, 3): one row for
  // each n-th part of grad.
  void gradient_stats(Tensor stats, ConstTensor grad);
  // sum (3) f64 = rows (n, 3) f64 added up in order.
  void sum_stats(Tensor sum, ConstTensor rows);
  // sum (2) i32 = the 64 bits of a checksum over the bits of `values` (base/checksum.h), whose type
  // has two or four bytes. Equal on every backend.
  void checksum(Tensor sum, ConstTensor values);
  // control (2) f32 = { multiplier for gradients, 1 if the step must be skipped }. The norm is
  // sqrt(stats[0]) * grad_scale; with clip > 0 the multiplier is grad_scale * min(1, clip / norm).
  void clip_control(Tensor control, ConstTensor stats, float clip, float grad_scale);
  // One fused pass over weights in the compute type, master, moments m and v, and grad. The master
  // of f32 weights is none or the weights themselves; that of f16 is f32; that of bf16 is their
  // lower halves (SplitF32, u16), or none: then weights are rounded stochastically. Does nothing if
  // control[1] is set.
  void adamw(Tensor weight, Tensor master, Tensor m, Tensor v, ConstTensor grad,
             ConstTensor control, const AdamWOptions& options);
  // The same for many stretches, in one pass if the backend can. All must have the same types.
  // options.weight_decay applies if `decay` is set; options.first_index is ignored.
  void adamw(std::span<const AdamWSegment> segments, ConstTensor control,
             const AdamWOptions& options);

  Profile& profile() { return profile_; }

 protected:
  // Called around every operator. The CPU reads the clock; CUDA records events and NVTX ranges.
  virtual void range_begin(Op op);
  virtual void range_end(Op op);
  class Range;

 private:
  virtual Buffer do_allocate(size_t bytes, const char* label) = 0;
  // Defaults for backends in host memory: ordinary allocations, and copies that are done at once.
  virtual Buffer do_allocate_host(size_t bytes, const char* label);
  virtual void do_start_copy_to_host(Lane lane, void* host, ConstTensor src);
  virtual void do_start_copy_from_host(Lane lane, Tensor dst, const void* host);
  virtual void do_copy(Tensor dst, ConstTensor src) = 0;
  virtual void do_copy_from_host(Tensor dst, const void* src) = 0;
  virtual void do_copy_to_host(void* dst, ConstTensor src) = 0;
  virtual void do_fill_zero(Tensor t) = 0;
  virtual void do_convert(Tensor dst, ConstTensor src) = 0;
  virtual void do_embedding_forward(Tensor out, ConstTensor tokens, ConstTensor wte,
                                    ConstTensor wpe, int64_t vocab_begin,
                                    int64_t first_position) = 0;
  virtual void do_embedding_backward(Tensor dwte, Tensor dwpe, ConstTensor dout, ConstTensor tokens,
                                     int64_t vocab_begin, int64_t first_position) = 0;
  // If a is none: plain LayerNorm of `b`; else sum = a + b first.
  virtual void do_layernorm_forward(Tensor sum, Tensor out, Tensor mean, Tensor rstd, ConstTensor a,
                                    ConstTensor b, ConstTensor weight, ConstTensor bias) = 0;
  virtual void do_layernorm_backward(Tensor dinp, Tensor dweight, Tensor dbias, ConstTensor dout,
                                     ConstTensor inp, ConstTensor mean, ConstTensor rstd,
                                     ConstTensor weight, Grad mode, Tensor dinp_sums) = 0;
  virtual void do_linear_forward(Tensor out, ConstTensor inp, ConstTensor weight, ConstTensor bias,
                                 const LinearOptions& options) = 0;
  virtual void do_linear_backward_input(Tensor dinp, ConstTensor dout, ConstTensor weight,
                                        const LinearInputGradOptions& options) = 0;
  virtual void do_linear_backward_weight(Tensor dweight, Tensor dbias, ConstTensor inp,
                                         ConstTensor dout, Grad mode) = 0;
  virtual void do_gelu_forward(Tensor out, ConstTensor pre, Gelu form) = 0;
  virtual void do_add(Tensor out, ConstTensor a, ConstTensor b) = 0;
  virtual void do_attention_forward(Tensor out, Tensor lse, ConstTensor qkv,
                                    const AttentionOptions& options) = 0;
  virtual void do_attention_backward(Tensor dqkv, ConstTensor dout, ConstTensor qkv,
                                     ConstTensor out, ConstTensor lse,
                                     const AttentionOptions& options, Tensor dq_sums) = 0;
  virtual void do_qkv_bias_backward(Tensor dbias, ConstTensor proj_weight,
                                    ConstTensor dproj_bias) = 0;
  virtual void do_attention_decode(Tensor out, Tensor k_cache, Tensor v_cache, ConstTensor qkv,
                                   int64_t position, const AttentionOptions& options) = 0;
  virtual void do_cross_entropy_forward(Tensor lse, Tensor target, ConstTensor logits,
                                        ConstTensor targets, VocabRange vocab) = 0;
  virtual void do_combine_lse(Tensor lse, ConstTensor parts) = 0;
  virtual void do_cross_entropy_loss(Tensor loss_sum, ConstTensor lse, ConstTensor target,
                                     ConstTensor targets) = 0;
  virtual void do_cross_entropy_backward(Tensor logits, ConstTensor lse, ConstTensor targets,
                                         ConstTensor scale, VocabRange vocab) = 0;
  // If false, the parts are called one after the other.
  virtual bool fuses_cross_entropy(const Tensor&) const { return false; }
  virtual void do_cross_entropy_in_place(Tensor, Tensor, Tensor, Tensor, ConstTensor, ConstTensor,
                                         VocabRange) {}
  // Returns false if it did nothing; then the parts are called one after the other.
  virtual bool do_linear_loss(const LinearLoss&) { return false; }
  // Called around the two gradients of a linear layer.
  virtual void begin_linear_backward(ConstTensor) {}
  virtual void end_linear_backward() {}
  virtual void do_gradient_stats(Tensor stats, ConstTensor grad) = 0;
  virtual void do_sum_stats(Tensor sum, ConstTensor rows);  // by way of the host
  virtual void do_checksum(Tensor sum, ConstTensor values) = 0;
  virtual void do_clip_control(Tensor control, ConstTensor stats, float clip, float grad_scale) = 0;
  virtual void do_adamw(Tensor weight, Tensor master, Tensor m, Tensor v, ConstTensor grad,
                        ConstTensor control, const AdamWOptions& options) = 0;
  virtual void do_adamw_segments(std::span<const AdamWSegment> segments, ConstTensor control,
                                 const AdamWOptions& options);

  Profile profile_;
  double range_start_ = 0;
};

std::unique_ptr<Backend> make_cpu_backend(int threads);
// Without CUDA in the build it throws and says how to get it.
std::unique_ptr<Backend> make_cuda_backend(int device);

}  // namespace stretto
