// Results must not depend on the number of threads.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "support/ops.h"
#include "support/staged_backend.h"

namespace stretto::test {

constexpr DType kComputeTypes[] = {DType::f32, DType::bf16, DType::f16};
constexpr Gelu kGelus[] = {Gelu::tanh, Gelu::exact};

// The cpu backend, or the one that the environment asks to test (make_backend).
inline Backend& cpu(int threads = 2) {
  static const std::unique_ptr<Backend> backends[] = {make_backend(1), make_backend(2),
                                                      make_backend(3)};
  return *backends[threads - 1];
}

// run(backend) returns the outputs; 1, 2 and 3 threads must give the same bits.
template <typename Run>
void expect_same_for_all_threads(const Run& run) {
  const std::vector<Operand> one = run(cpu(1));
  for (const int threads : {2, 3}) {
    const std::vector<Operand> many = run(cpu(threads));
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_TRUE(one[i].same_bits(many[i])) << "output " << i << ", " << threads << " threads";
    }
  }
}

}  // namespace stretto::test
