// The table of implementations and the choice between them.
#include "backend/cpu/gemm.h"

#include <hwy/targets.h>
#include <spdlog/spdlog.h>

#include <mutex>

#include "backend/cpu/gemm_implementations.h"
#include "backend/cpu/host_memory.h"
#include "base/error.h"

namespace stretto {

void* Scratch::bytes(size_t bytes) {
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

// Once per process: narrow types without hardware for them are slower than f32, not faster.
void say_emulated(DType type) {
  static std::once_flag once;
  std::call_once(once, [type] {
    spdlog::info("{} matrix products are emulated on this CPU: converted to f32, f32 sums",
                 dtype_name(type));
  });
}

}  // namespace

// From bench/gemm_bench.cpp: with AVX-512 our kernel leads on all shapes of a GPT-2 step; with AVX2
// OpenBLAS's assembly leads by some percent. Narrow types without hardware: ours, which converts
// while packing. Few rows against stored rows of B (generation): dot products.
GemmChoice choose_gemm(const GemmArgs& args) {
  if (supports_dot(args)) return GemmChoice::dot;
  if (args.a.type != DType::f32) {
    if (onednn_is_native(args.a.type) && supports_onednn(args)) return GemmChoice::onednn;
    say_emulated(args.a.type);
    return GemmChoice::own;
  }
  return has_avx512() ? GemmChoice::own : GemmChoice::openblas;
}

void gemm(const GemmArgs& args, GemmContext& context, GemmChoice choice) {
  if (args.m == 0 || args.n == 0) return;
  if (choice == GemmChoice::automatic) choice = choose_gemm(args);
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
