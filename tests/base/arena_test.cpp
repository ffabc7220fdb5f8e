#include "tensor/arena.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace stretto {
namespace {

Buffer make_buffer(size_t bytes) {
  return {std::malloc(bytes), bytes, [](void* p) { std::free(p); }};
}

TEST(Arena, PiecesAreAlignedAndCounted) {
  Arena arena(make_buffer(4096));
  const Tensor a = arena.take("a", DType::f32, {10, 3});
  EXPECT_EQ(arena.used(), 256u);
  const Tensor b = arena.take("b", DType::bf16, {500});
  EXPECT_EQ(arena.used(), 256u + 1024u);
  EXPECT_EQ(b.as<bf16_t>() - static_cast<bf16_t*>(a.data()), 128);
  EXPECT_EQ(a.rows(), 10);
}

TEST(Arena, OverflowNamesTheRegion) {
  Arena arena(make_buffer(1024));
  try {
    arena.take("too big", DType::f32, {1000});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("too big"), std::string::npos);
  }
}

TEST(Tensor, ViewsShareElements) {
  float data[12] = {};
  const Tensor t(data, DType::f32, {4, 3});
  EXPECT_EQ(t.row_range(1, 3).as<float>(), data + 3);
  EXPECT_EQ(t.slice(5, 7).as<float>(), data + 5);
  EXPECT_THROW(t.view({5, 3}), Error);
  EXPECT_THROW(t.row_range(3, 5), Error);
}

}  // namespace
}  // namespace stretto
