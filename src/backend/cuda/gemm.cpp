#include "backend/cuda/gemm.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cuda/cublas_library.h"
#include "backend/cuda/cuda_check.h"
#include "base/error.h"
#include "base/log.h"

namespace stretto::cuda {
namespace {

constexpr int kCandidates = 48;

cudaDataType_t data_type(DType type) {
  switch (type) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    case DType::f8e4m3:
      return CUDA_R_8F_E4M3;
    case DType::f8e5m2:
      return CUDA_R_8F_E5M2;
    default:
      STRETTO_CHECK(false, "matrix product of {}", dtype_name(type));
  }
  return CUDA_R_32F;
}

cublasLtEpilogue_t library_epilogue(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::gelu:
      return CUBLASLT_EPILOGUE_GELU;
    case Epilogue::gelu_bias:
      return CUBLASLT_EPILOGUE_GELU_BIAS;
    case Epilogue::gelu_aux:
      return CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::gelu_aux_bias:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::dgelu:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::bgradb:
      return CUBLASLT_EPILOGUE_BGRADB;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

bool uses_aux(Epilogue e) {
  return e == Epilogue::gelu_aux || e == Epilogue::gelu_aux_bias || e == Epilogue::dgelu;
}

DType type_of_b(const GemmProblem& p) { return p.in_b == DType::f32 ? p.in : p.in_b; }

int alignment_of(const void* pointer, int limit) {
  if (pointer == nullptr) return limit;
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  return static_cast<int>(std::min<uintptr_t>(address & (~address + 1), limit));
}

int worst_alignment(const GemmOperands& o) {
  int align = 256;
  for (const void* pointer :
       {o.a, o.b, o.c, static_cast<const void*>(o.d), static_cast<const void*>(o.aux)}) {
    align = alignment_of(pointer, align);
  }
  return align;
}

template <typename T>
void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, T value) {
  CUBLAS_CHECK(cublas_lt().set_desc(desc, attribute, &value, sizeof(value)));
}

template <typename T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         T value) {
  CUBLAS_CHECK(cublas_lt().set_preference(preference, attribute, &value, sizeof(value)));
}

struct Preference {
  cublasLtMatmulPreference_t handle = nullptr;
  Preference() { CUBLAS_CHECK(cublas_lt().create_preference(&handle)); }
  ~Preference() { cublas_lt().destroy_preference(handle); }
};

std::string cache_name(const std::string& device_name) {
  std::string name = device_name;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '-');
  return fmt::format("gemm-{}-cublaslt-{}", name, cublas_lt().version());
}

}  // namespace

GemmProblem forward_problem(int64_t rows, int64_t n, int64_t k, DType in, DType out) {
  return {.m = n,
          .n = rows,
          .k = k,
          .trans_a = true,
          .trans_b = false,
          .lda = k,
          .ldb = k,
          .ldd = n,
          .in = in,
          .out = out};
}

std::string GemmProblem::text() const {
  const std::string types =
      fmt::format("{}*{}->{}", dtype_name(in), dtype_name(type_of_b(*this)), dtype_name(out));
  return fmt::format("{}x{}x{} {}{} ld {} {} {} {} epilogue {} beta {} fast {} align {}", m, n, k,
                     trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', lda, ldb, ldd, types,
                     static_cast<int>(epilogue), accumulate ? 1 : 0, fast_accumulation ? 1 : 0,
                     align);
}

std::string Gemm::key_of(const GemmProblem& problem) const {
  return problem.text() + (tf32_ ? " tf32" : "");
}

std::string Gemm::choice_key(const GemmProblem& problem, size_t ways) const {
  return fmt::format("way of {} {}", ways, key_of(problem));
}

Gemm::Gemm(const std::string& device_name, const CudaOptions& options, cudaStream_t stream)
    : tf32_(options.tf32),
      tune_(options.tune),
      collect_(options.collect),
      settle_(options.settle),
      way_(options.way),
      stream_(stream),
      cache_(options.tune_cache, cache_name(device_name)) {
  CUBLAS_CHECK(cublas_lt().create(&handle_));
  CUDA_CHECK(cudaEventCreate(&begin_));
  CUDA_CHECK(cudaEventCreate(&end_));
  workspace_.reserve(options.gemm_workspace_bytes, stream_);
}

Gemm::~Gemm() {
  for (auto& [problem, plan] : plans_) {
    cublas_lt().destroy_desc(plan.desc);
    cublas_lt().destroy_layout(plan.a);
    cublas_lt().destroy_layout(plan.b);
    cublas_lt().destroy_layout(plan.d);
  }
  cudaEventDestroy(begin_);
  cudaEventDestroy(end_);
  if (!leave_memory()) cublas_lt().destroy(handle_);  // it waits for the device
}

bool Gemm::supports(const GemmProblem& problem, const GemmOperands& operands) {
  return plan(problem, operands).supported;
}

double Gemm::seconds(const GemmProblem& problem, const GemmOperands& operands) {
  const Plan& p = plan(problem, operands);
  return p.supported ? p.seconds : std::numeric_limits<double>::infinity();
}

void Gemm::run(const GemmProblem& problem, const GemmOperands& operands) {
  const Plan& p = plan(problem, operands);
  STRETTO_CHECK(p.supported, "cuBLASLt has no algorithm for {}", problem.text());
  set_pointers(p, problem, operands);
  CUBLAS_CHECK(launch(p, problem, operands, p.algo));
}

cublasStatus_t Gemm::launch(const Plan& p, const GemmProblem& problem, const GemmOperands& operands,
                            const cublasLtMatmulAlgo_t& algo) {
  const float one = 1.0f;
  const float beta = problem.accumulate ? 1.0f : 0.0f;
  const void* c = operands.c != nullptr ? operands.c : operands.d;
  return cublas_lt().matmul(handle_, p.desc, &one, operands.a, p.a, operands.b, p.b, &beta, c, p.d,
                            operands.d, p.d, &algo, workspace_.reserve(0, stream_),
                            workspace_.bytes(), stream_);
}

void Gemm::set_pointers(const Plan& p, const GemmProblem& problem, const GemmOperands& operands) {
  if (operands.a_scale != nullptr) {
    set(p.desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, operands.a_scale);
    set(p.desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, operands.b_scale);
  }
  if (operands.bias != nullptr) set(p.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
  if (uses_aux(problem.epilogue)) {
    set(p.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.aux);
  }
}

Gemm::Plan& Gemm::plan(GemmProblem problem, const GemmOperands& operands) {
  problem.align = worst_alignment(operands);
  const auto [entry, fresh] = plans_.try_emplace(problem);
  Plan& p = entry->second;
  if (fresh) describe(p, problem);
  // A plan first met inside a captured graph could not be timed; do so at the next chance.
  if (fresh || (p.supported && !p.tuned && tuning())) choose_algorithm(p, problem, operands);
  return p;
}

void Gemm::describe(Plan& p, const GemmProblem& problem) {
  const bool tf32 = tf32_ && problem.in == DType::f32;
  CUBLAS_CHECK(cublas_lt().create_desc(
      &p.desc, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
  const auto op = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(p.desc, CUBLASLT_MATMUL_DESC_TRANSA, op(problem.trans_a));
  set(p.desc, CUBLASLT_MATMUL_DESC_TRANSB, op(problem.trans_b));
  set(p.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, library_epilogue(problem.epilogue));
  if (uses_aux(problem.epilogue)) set(p.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, problem.ldd);
  if (problem.fast_accumulation) set(p.desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1});

  const auto layout = [](cublasLtMatrixLayout_t* out, DType type, bool transposed, int64_t rows,
                         int64_t columns, int64_t ld) {
    CUBLAS_CHECK(cublas_lt().create_layout(out, data_type(type),
                                           static_cast<uint64_t>(transposed ? columns : rows),
                                           static_cast<uint64_t>(transposed ? rows : columns), ld));
  };
  layout(&p.a, problem.in, problem.trans_a, problem.m, problem.k, problem.lda);
  layout(&p.b, type_of_b(problem), problem.trans_b, problem.k, problem.n, problem.ldb);
  layout(&p.d, problem.out, false, problem.m, problem.n, problem.ldd);
}

void Gemm::choose_algorithm(Plan& p, const GemmProblem& problem, const GemmOperands& operands) {
  if (restore(p, problem) && !collect_) return;
  Preference preference;
  set(preference.handle, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_.bytes());
  // Split-k only with partial sums in f32, added in order: the other schemes add in the output
  // type, or in the order of arrival.
  set(preference.handle, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(preference.handle, attribute, static_cast<uint32_t>(problem.align));
  }
  set_pointers(p, problem, operands);
  Candidates found(kCandidates);
  int count = 0;
  const cublasStatus_t status = cublas_lt().heuristic(
      handle_, p.desc, p.a, p.b, p.d, p.d, preference.handle, kCandidates, found.data(), &count);
  found.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<size_t>(count) : 0);
  std::erase_if(found, [](const auto& r) { return r.state != CUBLAS_STATUS_SUCCESS; });
  p.supported = !found.empty();
  if (!p.supported) return;
  if (!p.tuned) p.algo = found.front().algo;
  if (collect_) widen(found, p, problem);
  if (tuning()) tune(p, problem, operands, found);
}

bool Gemm::restore(Plan& p, const GemmProblem& problem) {
  if (!tune_) return false;
  const auto value = cache_.find(key_of(problem));
  if (!value) return false;
  const size_t space = value->find(' ');
  constexpr size_t kWords = sizeof(p.algo.data) / sizeof(uint64_t);
  if (space == std::string::npos || value->size() != space + 1 + 16 * kWords) return false;
  cublasLtMatmulAlgo_t algo{};
  for (size_t i = 0; i < kWords; ++i) {
    algo.data[i] = std::strtoull(value->substr(space + 1 + 16 * i, 16).c_str(), nullptr, 16);
  }
  // The library judges what the file says: an algorithm it does not accept is tuned afresh.
  cublasLtMatmulHeuristicResult_t result{};
  if (cublas_lt().check_algo(handle_, p.desc, p.a, p.b, p.d, p.d, &algo, &result) !=
          CUBLAS_STATUS_SUCCESS ||
      result.workspaceSize > workspace_.bytes()) {
    return false;
  }
  p.algo = algo;
  p.seconds = std::strtod(value->c_str(), nullptr);
  p.supported = p.tuned = true;
  return true;
}

}  // namespace stretto::cuda

namespace stretto {

void require_tune_cache(int device) {
  const std::string name = cuda_device_name(device);
  if (!name.empty()) cuda::TuneCache("", cuda::cache_name(name)).require_writable();
}

}  // namespace stretto
