// The CUDA backend: device memory, one stream per lane, cuBLASLt for matrix products, our own
// kernels for the rest. One file per operator, named as in the cpu backend.
//
// Operators only queue work: they neither allocate nor wait once every shape has been seen
// (warm-up), so a step can be captured in a graph. Sums that cross thread blocks go through
// partial results added in a fixed order; no operator uses floating-point atomics.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "backend/backend.h"
#include "backend/cuda/attention.h"
#include "backend/cuda/column_sum.h"
#include "backend/cuda/cuda_options.h"
#include "backend/cuda/device_timer.h"
#include "backend/cuda/gemm.h"
#include "backend/cuda/graphs.h"
#include "backend/cuda/lanes.h"

namespace stretto::cuda {

// An operand rounded to 8 bits, and the factor that undoes its scaling; both in device memory.
struct EightBit {
  const void* data = nullptr;
  const float* inverse = nullptr;
};

class CudaBackend final : public Backend {
 public:
  CudaBackend(int device, const CudaOptions& options);
  ~CudaBackend() override;

  const char* name() const override { return "cuda"; }
  bool host_memory() const override { return false; }
  void synchronize() override;
  Event record(Lane lane) override { return lanes_.record(lane); }
  void wait(Lane lane, Event event) override { lanes_.wait(lane, event); }
  void wait_on_host(Event event) override { lanes_.wait_on_host(event); }
  void time_operators(bool on) override { timing_ = on; }
  bool begin_task(const TraceSlice& slice) override;
  void end_task() override;
  // Between these calls the compute lane only waits for other ranks. How long, is added to
  // `seconds` by the next synchronize(), and shown on `lane`, if operators are timed.
  void begin_wait(TraceLane lane, double* seconds);
  void end_wait();
  void eight_bit_products(bool on) override;
  bool repeat(uint64_t key, const std::function<void()>& work) override;
  size_t device_bytes() const override;
  std::vector<Tunable> tunables() override { return gemm_.tunables(); }
  void set_tunables(std::span<const int> options) override { gemm_.set_tunables(options); }
  void remember_tunables() override { gemm_.remember_tunables(); }
  bool sums_stream_columns() const override { return true; }
  bool adds_in_products() const override { return true; }

  void make_current() const;  // of the calling thread, which may not be the constructor's
  cudaStream_t stream(Lane lane = Lane::compute) const { return lanes_.stream(lane); }
  const cudaDeviceProp& properties() const { return properties_; }

 protected:
  void range_begin(Op op) override;
  void range_end(Op op) override;

 private:
  bool times_now() const { return timing_ && !is_capturing(stream()); }
  template <typename Copy>
  void start_copy(Lane lane, TraceLane shown, size_t bytes, Copy&& copy);

  Buffer do_allocate(size_t bytes, const char* label) override;
  Buffer do_allocate_host(size_t bytes, const char* label) override;
  void do_start_copy_to_host(Lane lane, void* host, ConstTensor src) override;
  void do_start_copy_from_host(Lane lane, Tensor dst, const void* host) override;
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
  bool fuses_cross_entropy(const Tensor& logits) const override;
  void do_cross_entropy_in_place(Tensor lse, Tensor target, Tensor loss_sum, Tensor logits,
                                 ConstTensor targets, ConstTensor scale, VocabRange vocab) override;
  bool do_linear_loss(const LinearLoss& loss) override;
  void begin_linear_backward(ConstTensor dout) override;
  void end_linear_backward() override { shared_gradient_ = {}; }
  void do_gradient_stats(Tensor stats, ConstTensor grad) override;
  void do_sum_stats(Tensor sum, ConstTensor rows) override;
  void do_checksum(Tensor sum, ConstTensor values) override;
  void do_clip_control(Tensor control, ConstTensor stats, float clip, float grad_scale) override;
  void do_adamw(Tensor weight, Tensor master, Tensor m, Tensor v, ConstTensor grad,
                ConstTensor control, const AdamWOptions& options) override;
  void do_adamw_segments(std::span<const AdamWSegment> segments, ConstTensor control,
                         const AdamWOptions& options) override;

  // Device memory valid until the next operator of the compute lane.
  template <typename T>
  T* scratch(int64_t count) {
    return static_cast<T*>(scratch_.reserve(static_cast<size_t>(count) * sizeof(T), stream()));
  }
  // What a block may ask for at most, with some left for what kernels have of their own.
  size_t dynamic_shared_bytes() const { return properties_.sharedMemPerBlockOptin - 2048; }
  enum class Direction { forward, backward };
  const AttentionKernel& attention_for(const AttentionGeometry& geometry, Direction direction,
                                       std::initializer_list<const void*> operands) const;
  // Adds to `out` (n) the column sums of the first n columns of x.
  void leading_column_sum(Tensor out, ConstTensor x);
  // Queues column sums of x (rows, n) into scratch, and adds them to (or stores them in) `out`.
  // With `before`: x is first multiplied by gelu'(pre), in place, and `act` becomes gelu(pre).
  void column_sum(Tensor out, ConstTensor x, Grad mode, const BeforeGelu& before = {});

  // lse, target, and the gradient in the logits' place.
  void logits_to_gradient(Tensor lse, Tensor target, Tensor logits, ConstTensor targets,
                          ConstTensor scale, VocabRange vocab);
  bool eight_bit_fits(int64_t rows, int64_t n, int64_t k, DType type) const;
  EightBit rounded(char* memory, ConstTensor x, DType type, bool transposed);
  EightBit rounded_gradient(ConstTensor dout, bool transposed);
  void eight_bit_forward(Tensor out, ConstTensor inp, ConstTensor weight, ConstTensor bias,
                         ConstTensor addend);
  void eight_bit_backward_input(Tensor dinp, ConstTensor dout, ConstTensor weight, Grad mode);
  void eight_bit_backward_weight(Tensor dweight, ConstTensor inp, ConstTensor dout, Grad mode);

  int device_;
  cudaDeviceProp properties_{};
  Lanes lanes_;
  Staging staging_;
  Workspace scratch_{"partial sums"};
  Workspace gradient_{"8-bit gradients"};
  struct {  // of the linear layer whose two gradients are being taken
    const void* source = nullptr;
    bool ready = false;
    EightBit normal, transposed;
  } shared_gradient_;
  DeviceTable adamw_table_;
  Graphs graphs_;
  uint64_t growths_ = 0;  // of working memory, as the graphs know it
  Gemm gemm_;
  const AttentionKernel* attention_;  // asked for by name; null: the best that can
  DeviceTimer timer_;
  bool repeatable_;
  bool timing_;
  bool use_graphs_;
  bool operator_open_ = false, wait_open_ = false, task_open_ = false;  // in the timer
  bool eight_bit_ = false;
};

}  // namespace stretto::cuda
