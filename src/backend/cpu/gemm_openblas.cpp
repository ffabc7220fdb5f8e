// Matrix products by OpenBLAS: calls with one thread on blocks that depend on the shape alone,
// spread over our own threads. So results do not depend on the number of threads, and calls from
// several std::threads at once never start threads inside threads.
#include <cblas.h>

#include <algorithm>

#include "backend/cpu/gemm_implementations.h"
#include "backend/cpu/one_openmp_thread.h"
#include "base/dynamic_library.h"
#include "base/error.h"
#include "base/parallel_for.h"

namespace stretto {
namespace {

using Sgemm = decltype(&cblas_sgemm);

// Opened at the first product: OpenBLAS takes memory for every core when it is loaded, and spins
// for ever where a limit (`ulimit -v`) refuses that. Most verbs compute no product.
Sgemm openblas_sgemm() {
  static const Sgemm found = [] {
    DynamicLibrary library("libopenblas.so.0");
    Sgemm sgemm = nullptr;
    decltype(&openblas_set_num_threads) set_threads = nullptr;
    library.find(sgemm, "cblas_sgemm");
    library.find(set_threads, "openblas_set_num_threads");
    if (!library.why_unusable().empty()) {
      throw Error(ExitCode::os_error, "matrix products by OpenBLAS: " + library.why_unusable(),
                  "apt-get install libopenblas0-openmp");
    }
    set_threads(1);  // an OpenBLAS built without OpenMP has its own setting
    return sgemm;
  }();
  return found;
}

// A block of an operand as f32: the operand itself, or a converted copy in `scratch`.
ConstMatrix block_f32(const ConstMatrix& m, int64_t row, int64_t column, int64_t rows,
                      int64_t columns, float* scratch) {
  if (m.transposed) {
    std::swap(row, column);
    std::swap(rows, columns);
  }
  const char* first = element(m.data, m.type, m.stride, row, column);
  if (m.type == DType::f32) return {first, DType::f32, m.stride, m.transposed};
  for (int64_t r = 0; r < rows; ++r) {
    load_floats(scratch + r * columns, element(first, m.type, m.stride, r, 0), m.type, columns);
  }
  return {scratch, DType::f32, columns, m.transposed};
}

void run_block(Sgemm sgemm, const GemmArgs& args, const LibraryBlocks& blocks, int64_t number,
               Scratch& scratch) {
  const int64_t row = blocks.row(number), column = blocks.column(number);
  const int64_t rows = std::min(blocks.rows, args.m - row);
  const int64_t columns = std::min(blocks.columns, args.n - column);
  const bool in_place = args.c.type == DType::f32 && args.epilogue.empty();
  const int64_t a_size = args.a.type == DType::f32 ? 0 : rows * args.k;
  const int64_t b_size = args.b.type == DType::f32 ? 0 : columns * args.k;
  float* a_copy = scratch.floats(a_size + b_size + (in_place ? 0 : rows * columns) + 1);
  const ConstMatrix a = block_f32(args.a, row, 0, rows, args.k, a_copy);
  const ConstMatrix b = block_f32(args.b, 0, column, args.k, columns, a_copy + a_size);
  char* c = element(args.c.data, args.c.type, args.c.stride, row, column);
  float* x = in_place ? reinterpret_cast<float*>(c) : a_copy + a_size + b_size;
  const int64_t x_stride = in_place ? args.c.stride : columns;
  const auto order = [](bool transposed) { return transposed ? CblasTrans : CblasNoTrans; };
  const auto narrow = [](int64_t size) { return static_cast<blasint>(size); };
  const OneOpenMpThread alone;
  sgemm(CblasRowMajor, order(a.transposed), order(b.transposed), narrow(rows), narrow(columns),
        narrow(args.k), 1.0f, static_cast<const float*>(a.data), narrow(a.stride),
        static_cast<const float*>(b.data), narrow(b.stride),
        in_place && args.accumulate ? 1.0f : 0.0f, x, narrow(x_stride));
  if (!in_place) finish_block(args, x, x_stride, row, column, rows, columns);
}

}  // namespace

bool supports_openblas(const GemmArgs&) { return true; }

void gemm_openblas(const GemmArgs& args, GemmContext& context) {
  const Sgemm sgemm = openblas_sgemm();
  const LibraryBlocks blocks(args.m, args.n);
  parallel_for(context.threads, blocks.count(), [&](int64_t block, int worker) {
    run_block(sgemm, args, blocks, block, context.worker[static_cast<size_t>(worker)]);
  });
}

}  // namespace stretto
