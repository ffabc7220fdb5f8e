// Operators of a layer: embedding, LayerNorm, products, GELU, attention.
#include "backend/operator.h"

namespace stretto {

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
                                 ConstTensor lse, const AttentionOptions& options, Tensor dq_sums) {
  if (dqkv.count() == 0) return;
  const AttentionSizes s = attention_sizes(qkv, out, options);
  check_same("attention: dqkv", dqkv, qkv);
  check_same("attention: dout", dout, out);
  check_count("attention: lse", lse, s.b * s.h * s.t);
  check_count("attention: dq_sums", dq_sums, dqkv.count() / (3 * s.b * s.t));
  // Five products: q k^T again, dv, dp, dq, dk.
  Range range(*this, Op::attention_backward, 2.5 * causal_flops(s),
              sizes_of(dqkv, dout, qkv, out, lse));
  do_attention_backward(dqkv, dout, qkv, out, lse, options, dq_sums);
}

void Backend::qkv_bias_backward(Tensor dbias, ConstTensor proj_weight, ConstTensor dproj_bias) {
  const int64_t n = proj_weight.rows(), c = proj_weight.last();
  check_count("qkv bias: dbias", dbias, 3 * c);
  check_count("qkv bias: dproj_bias", dproj_bias, n);
  check_type("qkv bias: dproj_bias", dproj_bias, dbias.dtype());
  Range range(*this, Op::qkv_bias_backward, 2 * d(n) * d(c),
              sizes_of(dbias, proj_weight, dproj_bias));
  do_qkv_bias_backward(dbias, proj_weight, dproj_bias);
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

}  // namespace stretto
