// The public half of every operator: check once, count the work, open a range, hand over. An empty
// micro-batch (no rows) is legal everywhere and does nothing.
#include "backend/backend.h"

#include <chrono>
#include <vector>

#include "backend/range.h"
#include "base/trace.h"
#include "base/units.h"

namespace stretto {
namespace {

double now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

double size_of(ConstTensor t) { return t.none() ? 0.0 : static_cast<double>(t.bytes()); }

template <typename... T>
double sizes_of(const T&... t) {
  return (size_of(t) + ...);
}

void check_count(const char* what, ConstTensor t, int64_t count) {
  STRETTO_CHECK(t.none() || t.count() == count, "{} has shape {}, expected {} elements", what,
                t.shape().text(), count);
}

void check_type(const char* what, ConstTensor t, DType type) {
  STRETTO_CHECK(t.none() || t.dtype() == type, "{} is {}, expected {}", what, dtype_name(t.dtype()),
                dtype_name(type));
}

void check_same(const char* what, ConstTensor t, ConstTensor like) {
  check_count(what, t, like.count());
  check_type(what, t, like.dtype());
}

double d(int64_t x) { return static_cast<double>(x); }

}  // namespace

void Backend::range_begin(Op) { range_start_ = now(); }
void Backend::range_end(Op op) {
  const double end = now();
  profile_.add_seconds(op, end - range_start_);
  TraceBuffer* trace = current_trace();
  if (trace != nullptr && trace->operators()) {
    trace->span(TraceLane::compute, name_of(op), range_start_, end);
  }
}

bool Backend::repeat(uint64_t, const std::function<void()>& work) {
  work();
  return true;
}

Buffer Backend::allocate(size_t bytes, const char* label) {
  Buffer buffer = do_allocate(bytes, label);
  STRETTO_CHECK(bytes == 0 || buffer.data() != nullptr, "allocation of {} for {}",
                format_bytes(static_cast<double>(bytes)), label);
  return buffer;
}

void Backend::copy(Tensor dst, ConstTensor src) {
  if (dst.count() == 0) return;
  check_same("copy: dst", dst, src);
  Range range(*this, Op::copy, 0, sizes_of(dst, src));
  do_copy(dst, src);
}

void Backend::copy_from_host(Tensor dst, const void* src) {
  Range range(*this, Op::copy, 0, sizes_of(dst));
  do_copy_from_host(dst, src);
}

void Backend::copy_to_host(void* dst, ConstTensor src) {
  Range range(*this, Op::copy, 0, sizes_of(src));
  do_copy_to_host(dst, src);
}

Buffer Backend::allocate_host(size_t bytes, const char* label) {
  return do_allocate_host(bytes, label);
}

// Counted, not timed: they run beside the operators.
void Backend::start_copy_to_host(Lane lane, void* host, ConstTensor src) {
  if (src.count() == 0) return;
  profile_.add(Op::copy, 0, size_of(src));
  do_start_copy_to_host(lane, host, src);
}

void Backend::start_copy_from_host(Lane lane, Tensor dst, const void* host) {
  if (dst.count() == 0) return;
  profile_.add(Op::copy, 0, size_of(dst));
  do_start_copy_from_host(lane, dst, host);
}

Buffer Backend::do_allocate_host(size_t bytes, const char* label) {
  return do_allocate(bytes, label);
}

void Backend::do_start_copy_to_host(Lane, void* host, ConstTensor src) {
  do_copy_to_host(host, src);
}

void Backend::do_start_copy_from_host(Lane, Tensor dst, const void* host) {
  do_copy_from_host(dst, host);
}

void Backend::fill_zero(Tensor t) {
  Range range(*this, Op::fill, 0, sizes_of(t));
  do_fill_zero(t);
}

void Backend::convert(Tensor dst, ConstTensor src) {
  if (dst.count() == 0) return;
  check_count("convert: dst", dst, src.count());
  Range range(*this, Op::convert, 0, sizes_of(dst, src));
  do_convert(dst, src);
}

void Backend::embedding_forward(Tensor out, ConstTensor tokens, ConstTensor wte, ConstTensor wpe,
                                int64_t vocab_begin, int64_t first_position) {
  if (out.count() == 0) return;
  check_type("embedding: tokens", tokens, DType::i32);
  check_count("embedding: tokens", tokens, out.rows());
  STRETTO_CHECK(wte.none() || wte.last() == out.last(), "{} {}", wte.shape().text(),
                out.shape().text());
  STRETTO_CHECK(
      wpe.none() || (wpe.last() == out.last() && first_position + tokens.last() <= wpe.rows()),
      "{} positions from {}, table {}", tokens.last(), first_position, wpe.shape().text());
  Range range(*this, Op::embedding_forward, 0, 2 * size_of(out) + size_of(tokens));
  do_embedding_forward(out, tokens, wte, wpe, vocab_begin, first_position);
}

void Backend::embedding_backward(Tensor dwte, Tensor dwpe, ConstTensor dout, ConstTensor tokens,
                                 int64_t vocab_begin, int64_t first_position) {
  if (dout.count() == 0) return;
  check_type("embedding: tokens", tokens, DType::i32);
  check_count("embedding: tokens", tokens, dout.rows());
  Range range(*this, Op::embedding_backward, 0, 3 * size_of(dout) + size_of(tokens));
  do_embedding_backward(dwte, dwpe, dout, tokens, vocab_begin, first_position);
}

void Backend::layernorm_forward(Tensor out, Tensor mean, Tensor rstd, ConstTensor inp,
                                ConstTensor weight, ConstTensor bias) {
  residual_layernorm_forward({}, out, mean, rstd, {}, inp, weight, bias);
}

void Backend::residual_layernorm_forward(Tensor sum, Tensor out, Tensor mean, Tensor rstd,
                                         ConstTensor a, ConstTensor b, ConstTensor weight,
                                         ConstTensor bias) {
  if (out.count() == 0) return;
  check_same("layernorm: out", out, b);
  check_same("layernorm: a", a, b);
  check_same("layernorm: sum", sum, b);
  check_count("layernorm: mean", mean, b.rows());
  check_count("layernorm: rstd", rstd, b.rows());
  check_type("layernorm: mean", mean, DType::f32);
  check_count("layernorm: weight", weight, b.last());
  check_count("layernorm: bias", bias, b.last());
  Range range(*this, Op::layernorm_forward, 0, sizes_of(sum, out, a, b));
  do_layernorm_forward(sum, out, mean, rstd, a, b, weight, bias);
}

void Backend::layernorm_backward(Tensor dinp, Tensor dweight, Tensor dbias, ConstTensor dout,
                                 ConstTensor inp, ConstTensor mean, ConstTensor rstd,
                                 ConstTensor weight, Grad mode, Tensor dinp_sums) {
  if (dinp.count() == 0) return;
  STRETTO_CHECK(dinp_sums.none() || sums_stream_columns());
  check_count("layernorm: dinp_sums", dinp_sums, inp.last());
  check_same("layernorm: dinp", dinp, inp);
  check_same("layernorm: dout", dout, inp);
  check_count("layernorm: dweight", dweight, inp.last());
  check_count("layernorm: mean", mean, inp.rows());
  const double passes = mode == Grad::accumulate ? 2 : 1;
  Range range(*this, Op::layernorm_backward, 0, passes * size_of(dinp) + sizes_of(dout, inp));
  do_layernorm_backward(dinp, dweight, dbias, dout, inp, mean, rstd, weight, mode, dinp_sums);
}

void Backend::linear_forward(Tensor out, ConstTensor inp, ConstTensor weight, ConstTensor bias,
                             const LinearOptions& options) {
  if (out.count() == 0) return;
  const int64_t m = inp.rows(), n = weight.rows(), k = weight.last();
  STRETTO_CHECK(inp.last() == k && out.last() == n && out.rows() == m,
                "linear: out {}, inp {}, weight {}", out.shape().text(), inp.shape().text(),
                weight.shape().text());
  check_type("linear: weight", weight, inp.dtype());
  check_count("linear: bias", bias, n);
  check_same("linear: pre", options.pre, out);
  check_same("linear: addend", options.addend, out);
  STRETTO_CHECK(
      options.addend.none() || (options.gelu == Gelu::none && options.addend.data() != out.data()),
      "linear: an addend goes with no GELU and is not the result itself");
  Range range(*this, Op::linear_forward, 2 * d(m) * d(n) * d(k),
              sizes_of(out, inp, weight, options.pre) + sizes_of(options.addend));
  do_linear_forward(out, inp, weight, bias, options);
}

void Backend::linear_backward_input(Tensor dinp, ConstTensor dout, ConstTensor weight,
                                    const LinearInputGradOptions& options) {
  if (dinp.count() == 0) return;
  const int64_t m = dout.rows(), n = weight.rows(), k = weight.last();
  STRETTO_CHECK(dinp.last() == k && dout.last() == n && dinp.rows() == m,
                "linear: dinp {}, dout {}, weight {}", dinp.shape().text(), dout.shape().text(),
                weight.shape().text());
  check_same("linear: pre", options.pre, dinp);
  STRETTO_CHECK(options.pre.none() == (options.gelu == Gelu::none),
                "gelu' needs its form and the value before it");
  check_same("linear: act", options.act, dinp);
  STRETTO_CHECK(options.act.none() || !options.pre.none(), "linear: act without pre");
  check_count("linear: dbias", options.dbias, k);
  Range range(*this, Op::linear_backward_input, 2 * d(m) * d(n) * d(k),
              sizes_of(dinp, dout, weight, options.pre) + sizes_of(options.act));
  do_linear_backward_input(dinp, dout, weight, options);
}

void Backend::linear_backward_weight(Tensor dweight, Tensor dbias, ConstTensor inp,
                                     ConstTensor dout, Grad mode) {
  const int64_t m = inp.rows(), n = dout.last(), k = inp.last();
  STRETTO_CHECK(dout.rows() == m && dweight.rows() == n && dweight.last() == k,
                "linear: dweight {}, inp {}, dout {}", dweight.shape().text(), inp.shape().text(),
                dout.shape().text());
  check_count("linear: dbias", dbias, n);
  if (m == 0) {  // an empty micro-batch: the gradient is zero
    if (mode == Grad::overwrite) fill_zero(dweight);
    if (mode == Grad::overwrite && dbias) fill_zero(dbias);
    return;
  }
  Range range(*this, Op::linear_backward_weight, 2 * d(m) * d(n) * d(k),
              sizes_of(dweight, inp, dout));
  do_linear_backward_weight(dweight, dbias, inp, dout, mode);
}

void Backend::linear_backward(Tensor dinp, Tensor dweight, Tensor dbias, ConstTensor dout,
                              ConstTensor inp, ConstTensor weight,
                              const LinearInputGradOptions& options, Grad mode) {
  begin_linear_backward(dout);
  linear_backward_input(dinp, dout, weight, options);
  linear_backward_weight(dweight, dbias, inp, dout, mode);
  end_linear_backward();
}

void Backend::gelu_forward(Tensor out, ConstTensor pre, Gelu form) {
  if (out.count() == 0) return;
  check_same("gelu: out", out, pre);
  STRETTO_CHECK(form != Gelu::none, "gelu needs its form");
  Range range(*this, Op::gelu_forward, 0, sizes_of(out, pre));
  do_gelu_forward(out, pre, form);
}

void Backend::add(Tensor out, ConstTensor a, ConstTensor b) {
  if (out.count() == 0) return;
  check_same("add: out", out, a);
  check_same("add: b", b, a);
  Range range(*this, Op::add, 0, sizes_of(out, a, b));
  do_add(out, a, b);
}

namespace {

struct AttentionSizes {
  int64_t b, t, h, hd;
};

AttentionSizes attention_sizes(ConstTensor qkv, ConstTensor out, const AttentionOptions& options) {
  STRETTO_CHECK(options.heads > 0);
  const int64_t b = qkv.shape()[0], t = qkv.shape()[1];
  STRETTO_CHECK(qkv.count() == 3 * out.count() && out.count() % (b * t * options.heads) == 0,
                "attention: qkv {}, out {}, {} heads", qkv.shape().text(), out.shape().text(),
                options.heads);
  return {b, t, options.heads, out.count() / (b * t * options.heads)};
}

// Multiply-adds of the causal triangle, two products forward: q k^T and p v.
double causal_flops(const AttentionSizes& s) {
  return 2 * 2 * d(s.b) * d(s.h) * d(s.hd) * d(s.t) * (d(s.t) + 1) / 2;
}

}  // namespace

void Backend::attention_forward(Tensor out, Tensor lse, ConstTensor qkv,
                                const AttentionOptions& options) {
  if (out.count() == 0) return;
  const AttentionSizes s = attention_sizes(qkv, out, options);
  check_count("attention: lse", lse, s.b * s.h * s.t);
  check_type("attention: out", out, qkv.dtype());
  Range range(*this, Op::attention_forward, causal_flops(s), sizes_of(out, qkv, lse));
  do_attention_forward(out, lse, qkv, options);
}

void Backend::attention_backward(Tensor dqkv, ConstTensor dout, ConstTensor qkv, ConstTensor out,
                                 ConstTensor lse, const AttentionOptions& options) {
  if (dqkv.count() == 0) return;
  const AttentionSizes s = attention_sizes(qkv, out, options);
  check_same("attention: dqkv", dqkv, qkv);
  check_same("attention: dout", dout, out);
  check_count("attention: lse", lse, s.b * s.h * s.t);
  // Five products: q k^T again, dv, dp, dq, dk.
  Range range(*this, Op::attention_backward, 2.5 * causal_flops(s),
              sizes_of(dqkv, dout, qkv, out, lse));
  do_attention_backward(dqkv, dout, qkv, out, lse, options);
}

void Backend::qkv_bias_backward(Tensor dbias, ConstTensor dqkv, ConstTensor proj_weight,
                                ConstTensor dproj_bias) {
  const int64_t n = proj_weight.rows(), c = proj_weight.last();
  check_count("qkv bias: dbias", dbias, 3 * c);
  check_count("qkv bias: dproj_bias", dproj_bias, n);
  check_type("qkv bias: dproj_bias", dproj_bias, dbias.dtype());
  check_type("qkv bias: dqkv", dqkv, proj_weight.dtype());
  STRETTO_CHECK(dqkv.count() % (3 * c) == 0, "qkv bias: dqkv {}, proj weight {}",
                dqkv.shape().text(), proj_weight.shape().text());
  Range range(*this, Op::qkv_bias_backward, 2 * d(n) * d(c),
              sizes_of(dbias, proj_weight, dproj_bias) + sizes_of(dqkv) / 3);
  do_qkv_bias_backward(dbias, dqkv.view({dqkv.count() / (3 * c), 3 * c}), proj_weight, dproj_bias);
}

void Backend::attention_decode(Tensor out, Tensor k_cache, Tensor v_cache, ConstTensor qkv,
                               int64_t position, const AttentionOptions& options) {
  const AttentionSizes s = attention_sizes(qkv, out, options);
  STRETTO_CHECK(s.t == 1 && position >= 0 && position < k_cache.shape()[1], "decode at {} of {}",
                position, k_cache.shape().text());
  const double keys = d(s.b) * d(s.h) * d(s.hd) * d(position + 1);
  Range range(*this, Op::attention_decode, 4 * keys,
              2 * keys * static_cast<double>(dtype_size(qkv.dtype())));
  do_attention_decode(out, k_cache, v_cache, qkv, position, options);
}

void Backend::cross_entropy_forward(Tensor lse, Tensor target, ConstTensor logits,
                                    ConstTensor targets, VocabRange vocab) {
  if (logits.count() == 0) return;
  check_count("cross entropy: lse", lse, logits.rows());
  check_count("cross entropy: target", target, logits.rows());
  check_count("cross entropy: targets", targets, logits.rows());
  check_type("cross entropy: targets", targets, DType::i32);
  Range range(*this, Op::cross_entropy_forward, 0, sizes_of(logits));
  do_cross_entropy_forward(lse, target, logits, targets, vocab);
}

void Backend::combine_lse(Tensor lse, ConstTensor parts) {
  if (lse.count() == 0) return;
  STRETTO_CHECK(parts.count() % lse.count() == 0);
  Range range(*this, Op::cross_entropy_forward, 0, sizes_of(lse, parts));
  do_combine_lse(lse, parts);
}

void Backend::cross_entropy_loss(Tensor loss_sum, ConstTensor lse, ConstTensor target,
                                 ConstTensor targets) {
  if (lse.count() == 0) return;
  check_type("cross entropy: loss_sum", loss_sum, DType::f64);
  check_count("cross entropy: target", target, lse.count());
  check_count("cross entropy: targets", targets, lse.count());
  Range range(*this, Op::cross_entropy_forward, 0, sizes_of(lse, target));
  do_cross_entropy_loss(loss_sum, lse, target, targets);
}

void Backend::cross_entropy_backward(Tensor logits, ConstTensor lse, ConstTensor targets,
                                     ConstTensor scale, VocabRange vocab) {
  if (logits.count() == 0) return;
  check_count("cross entropy: lse", lse, logits.rows());
  check_count("cross entropy: targets", targets, logits.rows());
  check_count("cross entropy: scale", scale, 1);
  Range range(*this, Op::cross_entropy_backward, 0, 2 * size_of(logits));
  do_cross_entropy_backward(logits, lse, targets, scale, vocab);
}

void Backend::cross_entropy_in_place(Tensor lse, Tensor target, Tensor loss_sum, Tensor logits,
                                     ConstTensor targets, ConstTensor scale, VocabRange vocab) {
  if (logits.count() == 0) return;
  check_count("cross entropy: lse", lse, logits.rows());
  check_count("cross entropy: target", target, logits.rows());
  check_count("cross entropy: targets", targets, logits.rows());
  check_count("cross entropy: scale", scale, 1);
  if (fuses_cross_entropy(logits)) {
    Range range(*this, Op::cross_entropy_backward, 0, 2 * size_of(logits));
    do_cross_entropy_in_place(lse, target, loss_sum, logits, targets, scale, vocab);
    return;
  }
  cross_entropy_forward(lse, target, logits, targets, vocab);
  cross_entropy_loss(loss_sum, lse, target, targets);
  cross_entropy_backward(logits, lse, targets, scale, vocab);
}

void Backend::gradient_stats(Tensor stats, ConstTensor grad) {
  const int64_t parts = stats.count() / 3;
  STRETTO_CHECK(parts > 0 && stats.count() == 3 * parts && grad.count() % parts == 0,
                "gradient stats: {} elements into {}", grad.count(), stats.shape().text());
  check_type("gradient stats", stats, DType::f64);
  Range range(*this, Op::gradient_stats, 0, sizes_of(grad));
  // Devices take all rows at once: launches of a few microseconds would add up to milliseconds.
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
}

// Every operand once, and once more where it is written; fp32 weights are their own master.
double adamw_bytes(ConstTensor weight, ConstTensor master, ConstTensor m, ConstTensor v,
                   ConstTensor grad) {
  const double copies = master.data() == weight.data() ? 0 : size_of(weight);
  return 2 * sizes_of(master, m, v) + size_of(grad) + (master.none() ? 2 : 1) * copies;
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
