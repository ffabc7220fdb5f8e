// Token and position embedding, forward and backward.
//
// Backward: each row of dwte receives the sum over all places where its token occurs. The places
// are sorted by (token, place), so every row has one owner, is read and written once, and gets its
// terms in the order of places, in f32. It needs no atomics, and nothing depends on how the work is
// divided.
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/pieces.h"
#include "backend/cpu/targets.h"
#include "base/ceil_div.h"

// Highway includes this file once per instruction set, from here.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/embedding.cpp"
#include "hwy/foreach_target.h"
#include "backend/cpu/simd_io-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {

// out = a + b; either may be null, both null give zeros.
void embed_row(void* out, const void* a, const void* b, DType type, size_t n) {
  with_float_type(type, [&](auto t) {
    using T = decltype(t);
    const F32 d;
    T* o = static_cast<T*>(out);
    const T* x = static_cast<const T*>(a == nullptr ? b : a);
    const T* y = static_cast<const T*>(a == nullptr ? nullptr : b);
    if (x == nullptr) {
      std::memset(out, 0, n * sizeof(T));
    } else if (y == nullptr) {
      std::memcpy(out, x, n * sizeof(T));
    } else {
      for_lanes(
          d, n, STRETTO_LANES {
            store(d, hn::Add(load(d, x + i, lanes), load(d, y + i, lanes)), o + i, lanes);
          });
    }
  });
}

// dst[0, n) += sum of src rows places[0..count) (in that order), of rows `width` long.
template <typename To, typename From>
void add_rows_typed(To* dst, const From* src, const uint64_t* places, int64_t count, size_t width,
                    size_t n) {
  const F32 d;
  for_lanes(
      d, n, STRETTO_LANES {
        auto sum = load(d, src + (places[0] & 0xffffffffu) * width + i, lanes);
        for (int64_t k = 1; k < count; ++k) {
          sum = hn::Add(sum, load(d, src + (places[k] & 0xffffffffu) * width + i, lanes));
        }
        store(d, hn::Add(sum, load(d, static_cast<const To*>(dst) + i, lanes)), dst + i, lanes);
      });
}

// The low half of a place is the row of src.
void add_rows(Tensor dst, int64_t row, ConstTensor src, const uint64_t* places, int64_t count,
              int64_t begin, int64_t end) {
  const int64_t width = src.last();
  with_float_type(dst.dtype(), [&](auto to) {
    with_float_type(src.dtype(), [&](auto from) {
      add_rows_typed(dst.as<decltype(to)>() + row * width + begin, src.as<decltype(from)>() + begin,
                     places, count, static_cast<size_t>(width), static_cast<size_t>(end - begin));
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto {

HWY_EXPORT(embed_row);
HWY_EXPORT(add_rows);

void CpuBackend::do_embedding_forward(Tensor out, ConstTensor tokens, ConstTensor wte,
                                      ConstTensor wpe, int64_t vocab_begin,
                                      int64_t first_position) {
  check_float_types(out);
  const int64_t width = out.last(), length = tokens.last();
  const size_t row_bytes = static_cast<size_t>(width) * dtype_size(out.dtype());
  STRETTO_CHECK((wte.none() || wte.dtype() == out.dtype()) &&
                (wpe.none() || wpe.dtype() == out.dtype()));
  const auto table_row = [&](ConstTensor table, int64_t row) -> const void* {
    if (table.none() || row < 0 || row >= table.rows()) return nullptr;
    return table.as<char>() + static_cast<size_t>(row) * row_bytes;
  };
  for_ranges(threads_, out.rows(), rows_per_piece(width), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      HWY_DYNAMIC_DISPATCH(embed_row)
      (out.as<char>() + static_cast<size_t>(row) * row_bytes,
       table_row(wte, tokens.as<int32_t>()[row] - vocab_begin),
       table_row(wpe, row % length + first_position), out.dtype(), static_cast<size_t>(width));
    }
  });
}

namespace {

constexpr int64_t kColumnBlock = 256;

// places: key << 32 | row of src, sorted. Adds each key's rows to row `key` of dst. A piece is a
// range of places and a block of columns; a key belongs to the piece with its first place.
void add_grouped(int threads, Tensor dst, ConstTensor src, const uint64_t* places, int64_t count) {
  const int64_t width = src.last();
  const int64_t blocks = ceil_div(width, kColumnBlock);
  const int64_t range = std::max<int64_t>(64, ceil_div(count, 32));
  const int64_t ranges = ceil_div(count, range);
  parallel_for(threads, ranges * blocks, [&](int64_t piece) {
    const int64_t column = piece % blocks * kColumnBlock;
    const int64_t end_column = std::min(width, column + kColumnBlock);
    int64_t at = piece / blocks * range;
    const int64_t end = std::min(count, at + range);
    const auto key = [&](int64_t k) { return places[k] >> 32; };
    while (at > 0 && at < end && key(at) == key(at - 1)) ++at;
    while (at < end) {
      int64_t next = at + 1;
      while (next < count && key(next) == key(at)) ++next;
      HWY_DYNAMIC_DISPATCH(add_rows)
      (dst, static_cast<int64_t>(key(at)), src, places + at, next - at, column, end_column);
      at = next;
    }
  });
}

}  // namespace

void CpuBackend::do_embedding_backward(Tensor dwte, Tensor dwpe, ConstTensor dout,
                                       ConstTensor tokens, int64_t vocab_begin,
                                       int64_t first_position) {
  check_float_types(dwte, dwpe, dout);
  const int64_t rows = dout.rows(), length = tokens.last();
  STRETTO_CHECK(rows < int64_t{1} << 32);
  uint64_t* places = static_cast<uint64_t*>(gemm_.shared.bytes(static_cast<size_t>(rows) * 8));
  int64_t count = 0;
  if (dwte) {
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t key = tokens.as<int32_t>()[row] - vocab_begin;
      if (key < 0 || key >= dwte.rows()) continue;
      places[count++] = static_cast<uint64_t>(key) << 32 | static_cast<uint64_t>(row);
    }
    std::sort(places, places + count);
    add_grouped(threads_, dwte, dout, places, count);
  }
  if (dwpe) {
    count = 0;
    for (int64_t t = 0; t < length; ++t) {
      for (int64_t row = t; row < rows; row += length) {
        places[count++] =
            static_cast<uint64_t>(t + first_position) << 32 | static_cast<uint64_t>(row);
      }
    }
    add_grouped(threads_, dwpe, dout, places, count);
  }
}

}  // namespace stretto
#endif  // HWY_ONCE
