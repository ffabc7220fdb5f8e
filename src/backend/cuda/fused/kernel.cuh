// One CUTLASS kernel for Hopper from an epilogue: persistent, operands by the bulk copy engine, two
// groups of warps on tiles of 128 x 128 in turn (one multiplies while the other finishes its tile),
// pairs of blocks that share what they fetch. Larger tiles that both groups finish together were
// slower with every epilogue here.
#pragma once

#include <cutlass/cutlass.h>
#include <cutlass/gemm/device/gemm_universal_adapter.h>

#include <cute/tensor.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>

#include "backend/cuda/cuda_check.h"
#include "backend/cuda/fused/products.h"
#include "base/error.h"

namespace stretto::cuda::fused {

using namespace cute;
namespace fusion = cutlass::epilogue::fusion;
namespace collective = cutlass::epilogue::collective;
using Bf16 = cutlass::bfloat16_t;
using RowMajor = cutlass::layout::RowMajor;
constexpr auto kNearest = cutlass::FloatRoundStyle::round_to_nearest;
constexpr int kPack = 8;  // elements of 16 bytes

using Tile = Shape<Int<kTile>, Int<kTile>, _64>;
using Pair = Shape<_2, _1, _1>;
using Part = Shape<_64, _64>;  // finished and stored at once: rows of whole cache lines
using End = cutlass::epilogue::TmaWarpSpecialized;

template <class Out>
using Plus = fusion::Sm90Compute<cutlass::plus, Out, float, kNearest>;
using Bias = fusion::Sm90RowBroadcast<0, Tile, Bf16, float>;

// A second result of a tile, stored on its way through the epilogue.
using StoredAs = collective::detail::AuxStoreDescriptor<
    collective::detail::EpilogueDescriptor<Tile, Part, void, Bf16, End>, RowMajor, Bf16>;
using Stored =
    fusion::Sm90AuxStore<StoredAs::Stages, StoredAs::EpilogueTile, StoredAs::Element, kNearest,
                         StoredAs::Stride, StoredAs::SmemLayoutAtom, StoredAs::CopyOpR2S>;

// `Source`: type of a further operand of the epilogue, or void. The weight is (n, k) as PyTorch
// stores it, or (k, n).
template <class Visitor, class Source, bool kWeightNK>
struct Kernel {
  using WeightLayout = std::conditional_t<kWeightNK, cutlass::layout::ColumnMajor, RowMajor>;
  using Finish = typename collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Pair, Part, float, float, Source,
      RowMajor, kPack, Bf16, RowMajor, kPack, End, Visitor>::CollectiveOp;
  using Multiply = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Bf16, RowMajor, kPack, Bf16,
      WeightLayout, kPack, float, Tile, Pair,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
          sizeof(typename Finish::SharedStorage))>,
      cutlass::gemm::KernelTmaWarpSpecializedPingpong>::CollectiveOp;
  using Whole = cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Multiply, Finish,
                                                     cutlass::gemm::PersistentScheduler>;
  using Device = cutlass::gemm::device::GemmUniversalAdapter<Whole>;
  using VisitorArguments = typename Finish::FusionCallbacks::Arguments;

  static void run(const FusedProduct& p, const VisitorArguments& visitor, const void* source,
                  cudaStream_t stream) {
    typename Device::Arguments a{};
    a.mode = cutlass::gemm::GemmUniversalMode::kGemm;
    a.problem_shape = {static_cast<int>(p.rows), static_cast<int>(p.n), static_cast<int>(p.k), 1};
    a.mainloop.ptr_A = static_cast<const Bf16*>(p.inp);
    a.mainloop.dA = {p.k, _1{}, 0};
    a.mainloop.ptr_B = static_cast<const Bf16*>(p.weight);
    if constexpr (kWeightNK) {
      a.mainloop.dB = {p.k, _1{}, 0};
    } else {
      a.mainloop.dB = {_1{}, p.n, 0};
    }
    a.epilogue.thread = visitor;
    if constexpr (!std::is_void_v<Source>) {
      a.epilogue.ptr_C = static_cast<const Source*>(source);
    }
    a.epilogue.dC = {p.n, _1{}, 0};
    a.epilogue.ptr_D = static_cast<Bf16*>(p.out);
    a.epilogue.dD = {p.n, _1{}, 0};
    a.hw_info.sm_count = processors();
    a.scheduler.max_swizzle_size = band(p.n);
    Device device;
    auto status = device.initialize(a, nullptr, stream);
    if (status == cutlass::Status::kSuccess) status = device.run(stream);
    STRETTO_CHECK(status == cutlass::Status::kSuccess, "fused product {}x{}x{}: {}", p.rows, p.n,
                  p.k, cutlass::cutlassGetStatusString(status));
  }

 private:
  // Tiles of neighbouring rows run together in bands, so that they share operands. A band's width
  // must divide the columns of tiles: the scheduler rounds up, and would run empty ones.
  static int band(int64_t n) {
    const int64_t columns = (n + kTile - 1) / kTile;
    return columns % 8 == 0 ? 8 : columns % 4 == 0 ? 4 : columns % 2 == 0 ? 2 : 1;
  }
  static int processors() {
    int device = 0, count = 0;
    CUDA_CHECK(cudaGetDevice(&device));
    CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
    return count;
  }
};

}  // namespace stretto::cuda::fused
