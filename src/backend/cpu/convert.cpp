// Conversion between element types, round to nearest even.
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/pieces.h"
#include "backend/cpu/targets.h"

// Highway includes this file once per instruction set, from here.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/convert.cpp"
#include "hwy/foreach_target.h"
#include "backend/cpu/simd_io-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {

template <typename To, typename From>
void convert_elements(To* dst, const From* src, size_t n) {
  const F32 d;
  for_lanes(
      d, n, STRETTO_LANES { store(d, load(d, src + i, lanes), dst + i, lanes); });
}

template <typename From>
void convert_from(Tensor dst, const From* src, int64_t begin, size_t n) {
  switch (dst.dtype()) {
    case DType::f32:
      return convert_elements(dst.as<float>() + begin, src, n);
    case DType::bf16:
      return convert_elements(dst.as<bf16_t>() + begin, src, n);
    case DType::f16:
      return convert_elements(dst.as<f16_t>() + begin, src, n);
    case DType::f8e4m3:
      return convert_elements(dst.as<f8e4m3_t>() + begin, src, n);
    case DType::f8e5m2:
      return convert_elements(dst.as<f8e5m2_t>() + begin, src, n);
    default:
      contract_broken("float type", __FILE__, __LINE__, dtype_name(dst.dtype()));
  }
}

void convert_range(Tensor dst, ConstTensor src, int64_t begin, int64_t end) {
  const size_t n = static_cast<size_t>(end - begin);
  switch (src.dtype()) {
    case DType::f32:
      return convert_from(dst, src.as<float>() + begin, begin, n);
    case DType::bf16:
      return convert_from(dst, src.as<bf16_t>() + begin, begin, n);
    case DType::f16:
      return convert_from(dst, src.as<f16_t>() + begin, begin, n);
    case DType::f8e4m3:
      return convert_from(dst, src.as<f8e4m3_t>() + begin, begin, n);
    case DType::f8e5m2:
      return convert_from(dst, src.as<f8e5m2_t>() + begin, begin, n);
    default:
      contract_broken("float type", __FILE__, __LINE__, dtype_name(src.dtype()));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto {

HWY_EXPORT(convert_range);

void CpuBackend::do_convert(Tensor dst, ConstTensor src) {
  if (dst.dtype() == src.dtype()) return do_copy(dst, src);
  // Checked here, because no exception may leave a worker thread.
  for (const DType type : {dst.dtype(), src.dtype()}) {
    STRETTO_CHECK(type == DType::f32 || type == DType::bf16 || type == DType::f16 ||
                      type == DType::f8e4m3 || type == DType::f8e5m2,
                  "convert: {} to {}", dtype_name(src.dtype()), dtype_name(dst.dtype()));
  }
  for_ranges(threads_, dst.count(), kPieceElements, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(convert_range)(dst, src, begin, end);
  });
}

}  // namespace stretto
#endif  // HWY_ONCE
