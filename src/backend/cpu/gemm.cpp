// The table of implementations and the choice between them.
#include "backend/cpu/gemm.h"

#include <hwy/targets.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <mutex>

#include "backend/cpu/gemm_implementations.h"
#include "backend/cpu/host_memory.h"
#include "base/error.h"

namespace stretto {

void Scratch::use(Tensor planned) {
  planned_ = planned;
  buffer_ = Buffer();
  most_ = 0;
}

void* Scratch::bytes(size_t bytes) {
  most_ = std::max(most_, bytes);
  if (planned_ && bytes <= planned_.bytes()) return planned_.data();
  if (bytes > buffer_.bytes()) {
    buffer_ = Buffer();  // free the old one first: contents are not kept
    buffer_ = allocate_host(bytes, "CPU scratch");
  }
  return buffer_.data();
}

std::span<const GemmImplementation> gemm_implementations() {
  static const GemmImplementation table[] = {
      {"openblas", GemmChoice::openblas, supports_openblas, gemm_openblas},
      {"onednn", GemmChoice::onednn, supports_onednn, gemm_onednn},
      {"amx", GemmChoice::amx, supports_amx, gemm_amx},
      {"own", GemmChoice::own, supports_own, gemm_own},
      {"dot", GemmChoice::dot, supports_dot, gemm_dot},
  };
  return table;
}

namespace {

bool has_avx512() {
  static const bool has = (hwy::SupportedTargets() & HWY_AVX3) != 0;
  return has;
}

// Says once per process that a narrow type without hardware for it is slower than f32, not faster.
void say_emulated(DType type) {
  static std::once_flag once;
  std::call_once(once, [type] {
    spdlog::info("{} matrix products are emulated on this CPU: converted to f32, f32 sums",
                 dtype_name(type));
  });
}

}  // namespace

// The choice follows bench/gemm_bench.cpp. bf16 with AMX: our tiles are faster than oneDNN in every
// product of a GPT-2 step except the head's weight gradient. f32: one choice per instruction set,
// not per shape: with AVX-512 our kernel, which is fastest; with AVX2 OpenBLAS, which was some
// percent faster when last measured on such a machine. Narrow types without hardware: our kernel,
// which converts while it packs. Few rows against stored rows of B (generation): dot products.
GemmChoice choose_gemm(const GemmArgs& args) {
  if (supports_dot(args)) return GemmChoice::dot;
  if (args.a.type != DType::f32) {
    if (supports_amx(args) && amx_is_native()) return GemmChoice::amx;
    if (onednn_is_native(args.a.type) && supports_onednn(args)) return GemmChoice::onednn;
    return GemmChoice::own;
  }
  return has_avx512() ? GemmChoice::own : GemmChoice::openblas;
}

bool has_bf16_units() { return amx_is_native() || onednn_is_native(DType::bf16); }

GemmScratch gemm_scratch(const GemmArgs& args, int threads) {
  const bool in_place = args.c.type == DType::f32 && args.epilogue.empty();
  const bool narrow = args.c.type != DType::f32 || (!in_place && args.accumulate);
  switch (choose_gemm(args)) {
    case GemmChoice::amx:
      return amx_scratch(args.m, args.n, args.k);
    case GemmChoice::own:
      return own_scratch(args.m, args.n, args.k, narrow, threads);
    case GemmChoice::dot:
      return {(args.m * args.k + 1) * 4, 0};
    default:
      return {0, in_place ? 4 : (LibraryBlocks::kRows * LibraryBlocks::kColumns + 1) * 4};
  }
}

void gemm(const GemmArgs& args, GemmContext& context, GemmChoice choice) {
  if (args.m == 0 || args.n == 0) return;
  if (choice == GemmChoice::automatic) {
    choice = choose_gemm(args);
    if (args.a.type != DType::f32 && choice == GemmChoice::own) say_emulated(args.a.type);
  }
  for (const GemmImplementation& implementation : gemm_implementations()) {
    if (implementation.choice == choice) {
      STRETTO_CHECK(implementation.supports(args), "{}", implementation.name);
      implementation.run(args, context);
      return;
    }
  }
  STRETTO_CHECK(false, "no such matrix product in this build: {}", static_cast<int>(choice));
}

}  // namespace stretto
