// The values' part of the qkv bias's gradient: that of the proj bias, taken back through proj.
#include <algorithm>
#include <cstddef>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/pieces.h"

namespace stretto {

void CpuBackend::do_qkv_bias_backward(Tensor dbias, ConstTensor proj_weight,
                                      ConstTensor dproj_bias) {
  const int64_t n = proj_weight.rows(), c = proj_weight.last();
  const Tensor values = dbias.slice(2 * c, 3 * c);
  float* factors = gemm_.shared.floats(n);
  load_floats(factors, dproj_bias.data(), dproj_bias.dtype(), n);
  const size_t element = dtype_size(proj_weight.dtype());
  const auto* weight = static_cast<const std::byte*>(proj_weight.data());
  constexpr int64_t kColumns = 64;
  for_ranges(threads_, c, kColumns, [&](int64_t begin, int64_t end) {
    float sum[kColumns] = {}, row[kColumns];
    for (int64_t i = 0; i < n; ++i) {
      load_floats(row, weight + static_cast<size_t>(i * c + begin) * element, proj_weight.dtype(),
                  end - begin);
      for (int64_t j = 0; j < end - begin; ++j) sum[j] += factors[i] * row[j];
    }
    store_floats(values.slice(begin, end).data(), values.dtype(), sum, end - begin);
  });
}

}  // namespace stretto
