// Matrix products by oneDNN, which supports AMX and AVX-512-BF16. As with OpenBLAS, each call uses
// one thread, on a block that depends on the shape alone.
#include <algorithm>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>

#include "backend/cpu/gemm_implementations.h"
#include "backend/cpu/one_openmp_thread.h"
#include "base/error.h"
#include "base/parallel_for.h"

namespace stretto {
namespace {

dnnl::engine& cpu_engine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::memory::data_type type_of(DType type) {
  return type == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

dnnl::memory::desc describe(int64_t rows, int64_t columns, DType type, int64_t stride,
                            bool transposed) {
  const dnnl::memory::dims strides =
      transposed ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1};
  return {{rows, columns}, type_of(type), strides};
}

// Creating a primitive generates code, so each thread keeps those of the shapes that it has met.
struct Block {
  int64_t m, n, k, a_stride, b_stride, x_stride;
  DType a_type, b_type;
  bool a_transposed, b_transposed, add;

  auto key() const {
    return std::make_tuple(m, n, k, a_stride, b_stride, x_stride, a_type, b_type, a_transposed,
                           b_transposed, add);
  }
};

const dnnl::matmul::primitive_desc& described(const Block& b, dnnl::matmul* primitive) {
  using Key = decltype(std::declval<Block>().key());
  static thread_local std::map<Key, std::pair<dnnl::matmul::primitive_desc, dnnl::matmul>> cache;
  auto found = cache.find(b.key());
  if (found == cache.end()) {
    dnnl::primitive_attr attributes;
    if (b.add) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    const dnnl::matmul::desc desc(describe(b.m, b.k, b.a_type, b.a_stride, b.a_transposed),
                                  describe(b.k, b.n, b.b_type, b.b_stride, b.b_transposed),
                                  describe(b.m, b.n, DType::f32, b.x_stride, false));
    dnnl::matmul::primitive_desc pd(desc, attributes, cpu_engine());
    dnnl::matmul made(pd);
    found = cache.emplace(b.key(), std::make_pair(std::move(pd), std::move(made))).first;
  }
  *primitive = found->second.second;
  return found->second.first;
}

void run_block(const GemmArgs& args, const LibraryBlocks& blocks, int64_t number,
               Scratch& scratch) {
  const int64_t row = blocks.row(number), column = blocks.column(number);
  const int64_t rows = std::min(blocks.rows, args.m - row);
  const int64_t columns = std::min(blocks.columns, args.n - column);
  const bool in_place = args.c.type == DType::f32 && args.epilogue.empty();
  char* c = element(args.c.data, args.c.type, args.c.stride, row, column);
  float* x = in_place ? reinterpret_cast<float*>(c) : scratch.floats(rows * columns);
  const Block block{rows,
                    columns,
                    args.k,
                    args.a.stride,
                    args.b.stride,
                    in_place ? args.c.stride : columns,
                    args.a.type,
                    args.b.type,
                    args.a.transposed,
                    args.b.transposed,
                    in_place && args.accumulate};
  const auto origin = [](const ConstMatrix& m, int64_t r, int64_t k) {
    return const_cast<char*>(m.transposed ? element(m.data, m.type, m.stride, k, r)
                                          : element(m.data, m.type, m.stride, r, k));
  };
  // OneDNN asks for the number of threads both when it plans a product and when it runs it.
  const OneOpenMpThread alone;
  dnnl::matmul product;
  const dnnl::matmul::primitive_desc& pd = described(block, &product);
  dnnl::stream stream(cpu_engine());
  dnnl::memory a(pd.src_desc(), cpu_engine(), origin(args.a, row, 0));
  dnnl::memory b(pd.weights_desc(), cpu_engine(), origin(args.b, 0, column));
  dnnl::memory out(pd.dst_desc(), cpu_engine(), x);
  product.execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, out}});
  stream.wait();
  if (!in_place) finish_block(args, x, block.x_stride, row, column, rows, columns);
}

}  // namespace

// Without AVX-512 oneDNN has no bf16 products at all.
bool supports_onednn(const GemmArgs& args) {
  const bool bf16 = args.a.type == DType::bf16 && __builtin_cpu_supports("avx512bw");
  return args.k > 0 && args.a.type == args.b.type && (args.a.type == DType::f32 || bf16);
}

void gemm_onednn(const GemmArgs& args, GemmContext& context) {
  const LibraryBlocks blocks(args.m, args.n);
  parallel_for(context.threads, blocks.count(), [&](int64_t block, int worker) {
    run_block(args, blocks, block, context.worker[static_cast<size_t>(worker)]);
  });
}

bool onednn_is_native(DType type) {
  return type == DType::bf16 && __builtin_cpu_supports("avx512bf16");
}

}  // namespace stretto
