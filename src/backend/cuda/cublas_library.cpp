#include "backend/cuda/cublas_library.h"

#include "base/dynamic_library.h"
#include "base/error.h"

namespace stretto::cuda {
namespace {

CublasLt load() {
  const std::string name = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
  DynamicLibrary library(name.c_str());
  CublasLt functions;
  library.find(functions.create, "cublasLtCreate");
  library.find(functions.destroy, "cublasLtDestroy");
  library.find(functions.version, "cublasLtGetVersion");
  library.find(functions.status_string, "cublasLtGetStatusString");
  library.find(functions.matmul, "cublasLtMatmul");
  library.find(functions.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  library.find(functions.check_algo, "cublasLtMatmulAlgoCheck");
  library.find(functions.algo_config, "cublasLtMatmulAlgoConfigGetAttribute");
  library.find(functions.set_algo_config, "cublasLtMatmulAlgoConfigSetAttribute");
  library.find(functions.algo_cap, "cublasLtMatmulAlgoCapGetAttribute");
  library.find(functions.create_desc, "cublasLtMatmulDescCreate");
  library.find(functions.destroy_desc, "cublasLtMatmulDescDestroy");
  library.find(functions.set_desc, "cublasLtMatmulDescSetAttribute");
  library.find(functions.create_layout, "cublasLtMatrixLayoutCreate");
  library.find(functions.destroy_layout, "cublasLtMatrixLayoutDestroy");
  library.find(functions.create_preference, "cublasLtMatmulPreferenceCreate");
  library.find(functions.destroy_preference, "cublasLtMatmulPreferenceDestroy");
  library.find(functions.set_preference, "cublasLtMatmulPreferenceSetAttribute");
  if (!library.why_unusable().empty()) {
    throw Error(ExitCode::os_error, fmt::format("cuBLASLt: {}", library.why_unusable()),
                fmt::format("install CUDA's {}, or name its folder in LD_LIBRARY_PATH; device=cpu "
                            "runs without",
                            name));
  }
  return functions;
}

}  // namespace

const CublasLt& cublas_lt() {
  static const CublasLt functions = load();
  return functions;
}

}  // namespace stretto::cuda
