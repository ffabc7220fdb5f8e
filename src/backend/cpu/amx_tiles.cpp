#include "backend/cpu/amx_tiles.h"

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace stretto::amx {
namespace {

constexpr int kAskPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
constexpr int kTileData = 18;           // XFEATURE_XTILEDATA

// The kernel allows tile registers only to processes that ask for them.
bool ask_for_tiles() {
  if (!__builtin_cpu_supports("avx512bf16")) return false;
  unsigned a = 7, b = 0, c = 0, d = 0;
  __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  const bool bf16 = (d >> 22 & 1) != 0, tile = (d >> 24 & 1) != 0;
  return bf16 && tile && syscall(SYS_arch_prctl, kAskPermission, kTileData) == 0;
}

struct alignas(64) TileShapes {  // the configuration of its eight tiles, as the hardware reads it
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
// A constant, not a local variable: compilers assume that the instruction reads only its first
// word, and would drop stores to the rest.
constexpr TileShapes kTileShapes;

__attribute__((target("amx-tile,amx-bf16"))) void open_tiles() { _tile_loadconfig(&kTileShapes); }

__attribute__((target("amx-tile,amx-bf16"))) void close_tiles() { _tile_release(); }

__attribute__((target("amx-tile,amx-bf16"))) void multiply_amx(const Square& s) {
  const auto c_stride = static_cast<size_t>(s.stride) * sizeof(float);
  float *c01 = s.c + kSide, *c10 = s.c + kSide * s.stride, *c11 = c10 + kSide;
  if (s.add) {
    _tile_loadd(0, s.c, c_stride);
    _tile_loadd(1, c01, c_stride);
    _tile_loadd(2, c10, c_stride);
    _tile_loadd(3, c11, c_stride);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const bf16_t *a = s.a, *b = s.b;
  for (int64_t t = 0; t < s.depth; ++t, a += kTile, b += kTile) {
    _tile_loadd(6, b, 64);
    _tile_loadd(4, a, 64);
    _tile_loadd(7, b + s.b_next, 64);
    _tile_loadd(5, a + s.a_next, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, s.c, c_stride);
  _tile_stored(1, c01, c_stride);
  _tile_stored(2, c10, c_stride);
  _tile_stored(3, c11, c_stride);
}

void multiply_emulated(const Square& s) {
  for (int64_t i = 0; i < 2 * kSide; ++i) {
    for (int64_t j = 0; j < 2 * kSide; ++j) {
      const bf16_t* a = s.a + i / kSide * s.a_next + i % kSide * kDepth;
      const bf16_t* b = s.b + j / kSide * s.b_next + j % kSide * 2;
      float sum = s.add ? s.c[i * s.stride + j] : 0.0f;
      for (int64_t t = 0; t < s.depth; ++t, a += kTile, b += kTile) {
        for (int64_t k = 0; k < kDepth; ++k) {
          sum += to_float(a[k]) * to_float(b[k / 2 * kDepth + k % 2]);
        }
      }
      s.c[i * s.stride + j] = sum;
    }
  }
}

}  // namespace

bool native() {
  static const bool has = ask_for_tiles();
  return has;
}

Session::Session() {
  if (native()) open_tiles();
}

Session::~Session() {
  if (native()) close_tiles();
}

void Session::multiply(const Square& square) const {
  native() ? multiply_amx(square) : multiply_emulated(square);
}

}  // namespace stretto::amx
