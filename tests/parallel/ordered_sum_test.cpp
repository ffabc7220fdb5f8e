#include "parallel/ordered_sum.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/random.h"
#include "comm/contract.h"
#include "comm/reduce.h"

namespace stretto {
namespace {

// Values of very different sizes: another order, or rounding in between, gives other bits.
TEST(OrderedSum, GivesTheBitsOfTheHostTransports) {
  const auto backend = make_cpu_backend(1);
  const CounterRng rng(3, 7);
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    for (const int64_t count : {1, 63, 1000}) {
      std::vector<contract::Array> arrays(5, contract::Array(type, count));
      for (size_t a = 0; a < arrays.size(); ++a) {
        for (int64_t i = 0; i < count; ++i) {
          const auto at = a * 1000 + static_cast<size_t>(i);
          arrays[a].set(i, static_cast<double>(rng.normal(at)) * (a % 2 == 0 ? 100 : 0.01));
        }
      }
      std::vector<const void*> sources;
      std::vector<ConstTensor> parts;
      for (contract::Array& array : arrays) sources.push_back(array.tensor().data());
      for (size_t a = 1; a < arrays.size(); ++a) parts.push_back(arrays[a].tensor());
      contract::Array expected(type, count);
      ordered_reduce(type, ReduceOp::sum, expected.tensor().data(), sources.data(),
                     static_cast<int>(sources.size()), count);
      std::vector<char> scratch(ordered_sum_scratch(type, count) + 64);
      add_in_order(*backend, arrays[0].tensor(), parts, scratch.data());
      EXPECT_EQ(std::memcmp(expected.tensor().data(), arrays[0].tensor().data(),
                            expected.tensor().bytes()),
                0)
          << dtype_name(type) << " x " << count;
    }
  }
}

}  // namespace
}  // namespace stretto
