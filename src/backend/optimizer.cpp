#include <vector>

#include "backend/operator.h"

namespace stretto {

void Backend::gradient_stats(Tensor stats, ConstTensor grad) {
  const int64_t parts = stats.count() / 3;
  STRETTO_CHECK(parts > 0 && stats.count() == 3 * parts && grad.count() % parts == 0,
                "gradient stats: {} elements into {}", grad.count(), stats.shape().text());
  check_type("gradient stats", stats, DType::f64);
  Range range(*this, Op::gradient_stats, 0, sizes_of(grad));
  // Devices take all rows in one launch; many launches of some microseconds would add up to
  // milliseconds.
  if (parts == 1 || !host_memory()) return do_gradient_stats(stats, grad);
  const Tensor rows = stats.view({stats.count()});
  const ConstTensor flat = grad.view({grad.count()});
  const int64_t size = grad.count() / parts;
  for (int64_t i = 0; i < parts; ++i) {
    do_gradient_stats(rows.slice(3 * i, 3 * i + 3), flat.slice(i * size, (i + 1) * size));
  }
}

void Backend::sum_stats(Tensor sum, ConstTensor rows) {
  check_count("sum stats", sum, 3);
  check_type("sum stats", sum, DType::f64);
  check_type("sum stats", rows, DType::f64);
  Range range(*this, Op::gradient_stats, 0, sizes_of(rows));
  do_sum_stats(sum, rows);
}

void Backend::do_sum_stats(Tensor sum, ConstTensor rows) {
  std::vector<double> copy;
  const double* values = rows.as<double>();
  if (!host_memory()) {
    copy.resize(static_cast<size_t>(rows.count()));
    do_copy_to_host(copy.data(), rows);
    values = copy.data();
  }
  double total[3] = {0, 0, 0};
  for (int64_t i = 0; i < rows.count(); ++i) total[i % 3] += values[i];
  do_copy_from_host(sum, total);
}

void Backend::checksum(Tensor sum, ConstTensor values) {
  check_count("checksum", sum, 2);
  check_type("checksum", sum, DType::i32);
  const size_t size = dtype_size(values.dtype());
  STRETTO_CHECK(size == 2 || size == 4, "checksum of {}", dtype_name(values.dtype()));
  Range range(*this, Op::copy, 0, sizes_of(values));
  do_checksum(sum, values);
}

void Backend::clip_control(Tensor control, ConstTensor stats, float clip, float grad_scale) {
  check_count("clip control", control, 2);
  check_type("clip control", control, DType::f32);
  Range range(*this, Op::gradient_stats, 0, 0);
  do_clip_control(control, stats, clip, grad_scale);
}

namespace {

void check_adamw(ConstTensor weight, ConstTensor master, ConstTensor m, ConstTensor v,
                 ConstTensor grad) {
  check_count("adamw: master", master, weight.count());
  check_count("adamw: m", m, weight.count());
  check_count("adamw: v", v, weight.count());
  check_count("adamw: grad", grad, weight.count());
  const DType type = weight.dtype();
  const bool fits = master.none()         ? type != DType::f16
                    : type == DType::f32  ? master.data() == weight.data()
                    : type == DType::bf16 ? master.dtype() == DType::u16
                                          : master.dtype() == DType::f32;
  STRETTO_CHECK(fits, "adamw: weights {}, master {}", dtype_name(type),
                master.none() ? "none" : dtype_name(master.dtype()));
}

// Each operand once, and once more if it is written. f16 weights are only written; other weights
// are the master, or a half of it, and are read as well.
double adamw_bytes(ConstTensor weight, ConstTensor master, ConstTensor m, ConstTensor v,
                   ConstTensor grad) {
  const double own_master = master.data() == weight.data() ? 0 : size_of(master);
  const double weights = (weight.dtype() == DType::f16 ? 1 : 2) * size_of(weight);
  return weights + 2 * (own_master + sizes_of(m, v)) + size_of(grad);
}

}  // namespace

void Backend::adamw(Tensor weight, Tensor master, Tensor m, Tensor v, ConstTensor grad,
                    ConstTensor control, const AdamWOptions& options) {
  check_adamw(weight, master, m, v, grad);
  Range range(*this, Op::adamw, 0, adamw_bytes(weight, master, m, v, grad));
  do_adamw(weight, master, m, v, grad, control, options);
}

void Backend::adamw(std::span<const AdamWSegment> segments, ConstTensor control,
                    const AdamWOptions& options) {
  double bytes = 0;
  for (const AdamWSegment& s : segments) {
    check_adamw(s.weight, s.master, s.m, s.v, s.grad);
    bytes += adamw_bytes(s.weight, s.master, s.m, s.v, s.grad);
  }
  Range range(*this, Op::adamw, 0, bytes);
  do_adamw_segments(segments, control, options);
}

void Backend::do_adamw_segments(std::span<const AdamWSegment> segments, ConstTensor control,
                                const AdamWOptions& options) {
  AdamWOptions own = options;
  for (const AdamWSegment& s : segments) {
    own.weight_decay = s.decay ? options.weight_decay : 0.0f;
    own.first_index = s.first_index;
    do_adamw(s.weight, s.master, s.m, s.v, s.grad, control, own);
  }
}

}  // namespace stretto
