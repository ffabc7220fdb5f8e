// Matrix products through cuBLASLt: d = alpha-free op(a) op(b) [+ c], column-major as the library
// sees it, with a fused epilogue. The algorithm of each problem is chosen once by timing the
// library's candidates on the real operands, and remembered on disk, so that later runs start at
// once and repeat bit for bit.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/cuda_options.h"
#include "backend/cuda/lanes.h"
#include "backend/cuda/tune_cache.h"
#include "base/dtype.h"

namespace stretto::cuda {

enum class Epilogue : uint8_t {
  none,
  bias,
  gelu,
  gelu_bias,
  gelu_aux,
  gelu_aux_bias,
  dgelu,
  bgradb
};

struct GemmProblem {
  int64_t m, n, k;
  bool trans_a, trans_b;
  int64_t lda, ldb, ldd;
  DType in, out;
  Epilogue epilogue = Epilogue::none;
  bool accumulate = false;
  DType in_b = DType::f32;         // 8-bit products: the type of b where it differs from a's
  bool fast_accumulation = false;  // 8-bit products: fewer bits in the running sum, and faster
  int align = 256;                 // of the worst operand, in bytes; filled in by Gemm

  auto operator<=>(const GemmProblem&) const = default;
  std::string text() const;
};

// out (rows, n) = inp (rows, k) weight (n, k)^T, each row by row: a is the weight, b the input.
GemmProblem forward_problem(int64_t rows, int64_t n, int64_t k, DType in, DType out);

struct GemmOperands {
  const void* a;
  const void* b;
  void* d;
  void* bias = nullptr;  // read by bias epilogues, written by bgradb
  void* aux = nullptr;   // value before GELU: written by gelu_aux, read by dgelu; ld = ldd
  const float* a_scale = nullptr;  // 8-bit operands: factors in device memory
  const float* b_scale = nullptr;
  const void* c = nullptr;  // what `accumulate` adds, laid out as d; null: d itself
};

// A second of a pass over memory beside one of a product: under its power cap the card runs faster
// afterwards, since a pass draws less than a product does. GELU in a product's epilogue costs whole
// steps more than its own time in a burst says, its gradient in a pass of its own as much as its
// time (mpt-350m, mpt-1b: `stretto tune`, docs/cuda_tried.md).
constexpr double kPassWeight = 0.65;
constexpr double kGeluPassWeight = 0.25;
constexpr double kGeluEpilogueWeight = 1.15;
constexpr double kGeluGradientPassWeight = 0.9;

// A way to do something around one product. `pass`, given: the part of it that only moves memory.
struct Way {
  std::function<void()> run;
  std::function<void()> pass = {};
  double pass_weight = 1;
  double weight = 1;  // of all of it
};
using Ways = std::vector<Way>;

class Gemm {
 public:
  Gemm(const std::string& device_name, const CudaOptions& options, cudaStream_t stream);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  // False: no algorithm does this problem with this epilogue.
  bool supports(const GemmProblem& problem, const GemmOperands& operands);
  void run(const GemmProblem& problem, const GemmOperands& operands);
  // Seconds of the chosen algorithm; infinity when unsupported, 0 when tuning is off.
  double seconds(const GemmProblem& problem, const GemmOperands& operands);

  // Ways to do the same thing around one product: the index of the fastest, remembered. Each
  // function returns the seconds it measured. Without tuning: the first.
  size_t choose(const GemmProblem& problem, const std::vector<std::function<double()>>& seconds);
  // The same, timed here: the ways are run many times over, which must do no harm.
  size_t fastest(const GemmProblem& problem, const Ways& ways);
  double measure(const std::function<void()>& work);  // seconds on the device
  bool tuning() const { return tune_ && !is_capturing(stream_); }

  // With CudaOptions::collect: each product's algorithms and each choice of ways, as of the first
  // call.
  std::vector<Tunable> tunables();
  void set_tunables(std::span<const int> options);
  void remember_tunables();

 private:
  struct Algorithm {
    cublasLtMatmulAlgo_t algo{};
    double seconds = 0;
  };
  using Candidates = std::vector<cublasLtMatmulHeuristicResult_t>;
  struct Plan {
    cublasLtMatmulDesc_t desc = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
    cublasLtMatmulAlgo_t algo{};
    bool supported = false;
    bool tuned = false;
    double seconds = 0;
    std::vector<Algorithm> collected;  // the one in use among them
  };

  Plan& plan(GemmProblem problem, const GemmOperands& operands);
  void describe(Plan& plan, const GemmProblem& problem);
  void choose_algorithm(Plan& plan, const GemmProblem& problem, const GemmOperands& operands);
  std::vector<double> race(const std::vector<std::function<void()>>& runs);
  std::vector<double> settled(const std::vector<std::function<void()>>& runs);
  void tune(Plan& plan, const GemmProblem& problem, const GemmOperands& operands,
            const Candidates& candidates);
  // Further settings of the algorithms found: all tiles, clusters and options they can run with.
  void widen(Candidates& found, const Plan& plan, const GemmProblem& problem);
  static void collect(Plan& plan, const std::vector<Algorithm>& sorted);
  static std::string cache_value(const Algorithm& algorithm);
  std::string key_of(const GemmProblem& problem) const;
  std::string choice_key(const GemmProblem& problem, size_t ways) const;
  bool restore(Plan& plan, const GemmProblem& problem);
  void set_pointers(const Plan& plan, const GemmProblem& problem, const GemmOperands& operands);
  cublasStatus_t launch(const Plan& plan, const GemmProblem& problem, const GemmOperands& operands,
                        const cublasLtMatmulAlgo_t& algo);

  cublasLtHandle_t handle_ = nullptr;
  bool tf32_;
  bool tune_, collect_;
  double settle_;
  int way_;
  cudaStream_t stream_;
  Workspace workspace_{"cuBLASLt"};
  TuneCache cache_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  std::map<GemmProblem, Plan> plans_;
  std::map<GemmProblem, size_t> choices_;
  std::map<GemmProblem, size_t> ways_;  // how many there are to choose from
  struct Handle {                       // of a tunable: one of the two
    Plan* plan = nullptr;
    GemmProblem problem;
  };
  std::vector<Handle> handles_;
};

}  // namespace stretto::cuda
