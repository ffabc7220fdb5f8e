// cuBLASLt is opened when it is first used: that takes a tenth of a second, and a program built
// with it starts on machines that lack it.
#pragma once

#include <cublasLt.h>

namespace stretto::cuda {

// The functions we use.
struct CublasLt {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtGetStatusString) status_string = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmulAlgoCheck) check_algo = nullptr;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) algo_config = nullptr;
  decltype(&cublasLtMatmulAlgoConfigSetAttribute) set_algo_config = nullptr;
  decltype(&cublasLtMatmulAlgoCapGetAttribute) algo_cap = nullptr;
  decltype(&cublasLtMatmulDescCreate) create_desc = nullptr;
  decltype(&cublasLtMatmulDescDestroy) destroy_desc = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_desc = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) create_layout = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
};

const CublasLt& cublas_lt();  // throws where it is missing

}  // namespace stretto::cuda
