#include "model/host_values.h"

#include <algorithm>
#include <memory>

#include "base/parallel_for.h"

namespace stretto {
namespace {

template <typename T, typename Convert>
void upload(Backend& backend, Tensor t, const float* values, Convert convert) {
  // Gigabytes of a large model pass through here: all threads convert, and touch the pages first.
  constexpr int64_t kPiece = 1 << 16;
  const int64_t count = t.count();
  const std::unique_ptr<T[]> narrow(new T[static_cast<size_t>(count)]);
  parallel_for(omp_get_max_threads(), (count + kPiece - 1) / kPiece, [&](int64_t piece) {
    const int64_t end = std::min(count, (piece + 1) * kPiece);
    for (int64_t i = piece * kPiece; i < end; ++i) narrow[i] = convert(values[i]);
  });
  backend.copy_from_host(t, narrow.get());
}

template <typename T>
std::vector<float> download(Backend& backend, ConstTensor t) {
  std::vector<T> narrow(static_cast<size_t>(t.count()));
  backend.copy_to_host(narrow.data(), t);
  std::vector<float> values(narrow.size());
  for (size_t i = 0; i < narrow.size(); ++i) values[i] = to_float(narrow[i]);
  return values;
}

}  // namespace

void assign_host_values(Backend& backend, Tensor t, const float* values) {
  switch (t.dtype()) {
    case DType::f32:
      backend.copy_from_host(t, values);
      break;
    case DType::bf16:
      upload<bf16_t>(backend, t, values, to_bf16);
      break;
    case DType::f16:
      upload<f16_t>(backend, t, values, to_f16);
      break;
    default:
      STRETTO_CHECK(false, "assign to {}", dtype_name(t.dtype()));
  }
}

std::vector<float> host_values(Backend& backend, ConstTensor t) {
  switch (t.dtype()) {
    case DType::f32:
      return download<float>(backend, t);
    case DType::bf16:
      return download<bf16_t>(backend, t);
    case DType::f16:
      return download<f16_t>(backend, t);
    default:
      STRETTO_CHECK(false, "values of {}", dtype_name(t.dtype()));
  }
}

}  // namespace stretto
