// The table of implementations and the choice between them.
#include "backend/cpu/gemm.h"

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
      {"own", GemmChoice::own, supports_own, gemm_own},
  };
  return table;
}

GemmChoice choose_gemm(const GemmArgs&) { return GemmChoice::own; }

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
