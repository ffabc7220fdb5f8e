#include "model/host_values.h"

#include <algorithm>
#include <memory>

#include "base/ceil_div.h"
#include "base/cores.h"
#include "base/parallel_for.h"
#include "base/split_f32.h"

namespace stretto {
namespace {

// Calls f(i) for each element, on several threads: a large model has gigabytes of values.
template <typename F>
void for_all(int threads, int64_t count, F&& f) {
  constexpr int64_t kPiece = 1 << 16;
  parallel_for(threads, ceil_div(count, kPiece), [&](int64_t piece) {
    const int64_t end = std::min(count, (piece + 1) * kPiece);
    for (int64_t i = piece * kPiece; i < end; ++i) f(i);
  });
}

template <typename T, typename Convert>
void upload(Backend& backend, Tensor t, const float* values, Convert convert) {
  // Not initialised, so that the threads are first to touch its pages.
  const std::unique_ptr<T[]> narrow(new T[static_cast<size_t>(t.count())]);
  for_all(static_cast<int>(usable_cores()), t.count(),
          [&](int64_t i) { narrow[i] = convert(values[i]); });
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
    case DType::u16:
      upload<uint16_t>(backend, t, values, [](float x) { return split(x).low; });
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

void join_halves(float* values, Backend& high_backend, ConstTensor high, Backend& low_backend,
                 ConstTensor low) {
  constexpr int64_t kPiece = int64_t{1} << 22;
  // Saves happen between steps, when all ranks of a machine are at it: each keeps to its own
  // threads.
  const int threads =
      high_backend.host_memory() ? high_backend.threads() : static_cast<int>(usable_cores());
  const auto room = static_cast<size_t>(std::min(high.count(), kPiece));
  const std::unique_ptr<bf16_t[]> upper(new bf16_t[room]);
  const std::unique_ptr<uint16_t[]> lower(new uint16_t[room]);
  for (int64_t begin = 0; begin < high.count(); begin += kPiece) {
    const int64_t end = std::min(high.count(), begin + kPiece), count = end - begin;
    high_backend.copy_to_host(upper.get(), high.slice(begin, end));
    low_backend.copy_to_host(lower.get(), low.slice(begin, end));
    for_all(threads, count, [&](int64_t i) { values[begin + i] = join({upper[i], lower[i]}); });
  }
}

}  // namespace stretto
