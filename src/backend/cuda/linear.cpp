// Matrix products of the layers. Row-major (rows, n) is column-major n x rows, so each product is
// handed to cuBLASLt with its operands swapped; no transposed copy is ever made.
//
// Where an epilogue can do the bias, GELU or bias gradient, it competes with a separate kernel of
// ours, and the faster of the two on this GPU and shape is taken. The residual is the library's C.
#include <algorithm>

#include "backend/cuda/column_sum.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/gelu_product.h"

namespace stretto::cuda {
namespace {

GemmProblem with(GemmProblem problem, Epilogue epilogue) {
  problem.epilogue = epilogue;
  return problem;
}

template <typename... T>
bool aligned(const T&... tensors) {
  return ((reinterpret_cast<uintptr_t>(tensors.data()) % 16 == 0) && ...);
}

}  // namespace

void CudaBackend::do_linear_forward(Tensor out, ConstTensor inp, ConstTensor weight,
                                    ConstTensor bias, const LinearOptions& options) {
  if (out.count() == 0) return;
  const bool bias_fits = bias.none() || bias.dtype() == out.dtype();
  STRETTO_CHECK(bias_fits, "bias {} for out {}", dtype_name(bias.dtype()), dtype_name(out.dtype()));
  const int64_t rows = inp.rows(), n = weight.rows(), k = weight.last();
  const bool eight_bit = eight_bit_fits(rows, n, k, inp.dtype());
  const bool keep = options.gelu != Gelu::none && !options.pre.none();
  const Tensor sum = keep ? options.pre : out;
  const auto activate = [&] {
    if (keep) {
      do_gelu_forward(out, options.pre, options.gelu);
    } else if (options.gelu != Gelu::none) {
      bias_gelu(out, {}, options.gelu, stream());
    }
  };
  if (eight_bit) {
    eight_bit_forward(sum, inp, weight, bias, options.addend);
    return activate();
  }

  GemmProblem plain = forward_problem(rows, n, k, inp.dtype(), out.dtype());
  plain.accumulate = !options.addend.none();
  const GemmProblem biased = bias.none() ? plain : with(plain, Epilogue::bias);
  GemmOperands operands{weight.data(), inp.data(), sum.data(), const_cast<void*>(bias.data())};
  operands.c = options.addend.data();
  GemmOperands unbiased = operands;
  unbiased.bias = nullptr;
  Ways ways;
  GemmProblem whole = biased;  // names the choice
  if (options.gelu != Gelu::none) {
    whole.epilogue = keep ? (bias.none() ? Epilogue::gelu_aux : Epilogue::gelu_aux_bias)
                          : (bias.none() ? Epilogue::gelu : Epilogue::gelu_bias);
    // The library has the tanh form alone, and tanh to about 1e-5: enough for 16 bits, not for f32.
    const bool exact = inp.dtype() == DType::f32 || options.gelu == Gelu::exact;
    const GemmOperands in_one{weight.data(), inp.data(), out.data(), operands.bias,
                              options.pre.data()};
    if (!exact && gemm_.supports(whole, in_one)) {
      ways.push_back(
          {.run = [=, this] { gemm_.run(whole, in_one); }, .weight = kGeluEpilogueWeight});
    }
  }
  ways.push_back({[&] {
                    if (gemm_.supports(biased, operands)) {
                      gemm_.run(biased, operands);
                    } else {
                      gemm_.run(plain, unbiased);
                      bias_gelu(sum, bias, Gelu::none, stream());
                    }
                    activate();
                  },
                  activate, kGeluPassWeight});
  ways[gemm_.fastest(whole, ways)].run();
}

void CudaBackend::do_linear_backward_input(Tensor dinp, ConstTensor dout, ConstTensor weight,
                                           const LinearInputGradOptions& options) {
  if (dinp.count() == 0) return;
  const int64_t rows = dout.rows(), n = weight.rows(), k = weight.last();
  GemmProblem plain{.m = k,
                    .n = rows,
                    .k = n,
                    .trans_a = false,
                    .trans_b = false,
                    .lda = k,
                    .ldb = n,
                    .ldd = k,
                    .in = dout.dtype(),
                    .out = dinp.dtype()};
  plain.accumulate = options.mode == Grad::accumulate;
  const bool gelu = options.gelu != Gelu::none;
  const BeforeGelu before{options.pre, options.gelu, options.act};

  if (gelu && plain.accumulate) {
    // The old gradient must not be scaled: the new one goes through scratch memory.
    const size_t result = static_cast<size_t>(dinp.count()) * dtype_size(dinp.dtype());
    Tensor fresh(scratch<char>(static_cast<int64_t>(result)), dinp.dtype(), dinp.shape());
    plain.accumulate = false;
    gemm_.run(plain, {weight.data(), dout.data(), fresh.data()});
    gelu_backward(fresh, before, stream());
    do_add(dinp, dinp, fresh);
    if (options.dbias) column_sum(options.dbias, dinp, Grad::accumulate);
    return;
  }
  const bool eight_bit = eight_bit_fits(rows, n, k, dout.dtype());
  if (eight_bit) {
    // Its operands take the scratch memory; the column sums follow when it is free again.
    eight_bit_backward_input(dinp, dout, weight, options.mode);
    if (options.dbias) return column_sum(options.dbias, dinp, Grad::accumulate, before);
    if (gelu) gelu_backward(dinp, before, stream());
    return;
  }
  if (!gelu) {
    gemm_.run(plain, {weight.data(), dout.data(), dinp.data()});
    if (options.dbias) column_sum(options.dbias, dinp, Grad::accumulate);
    return;
  }
  // The epilogue does not write GELU's output; our pass does so on the way, maybe over its input:
  // that can be run once only, and is the one way then.
  const bool exact =
      dout.dtype() == DType::f32 || options.gelu == Gelu::exact;  // as in the forward pass
  const bool fuses = options.act.none() && !exact;
  const GeluShape shape{rows, k, n};
  const bool own = fuses && aligned(dinp, dout, weight, options.pre) &&
                   dinp.dtype() == dout.dtype() &&
                   gelu_product_supports(properties_, dout.dtype(), shape);
  int parts = column_sum_stripes(rows, k);
  const int most = own ? std::max(parts, gelu_product_parts(shape)) : parts;
  float* partial = options.dbias.none() ? nullptr : scratch<float>(most * k);
  const auto sums = [&](const BeforeGelu& gradient_of) {
    if (partial != nullptr) return column_sum_partials(partial, dinp, gradient_of, stream());
    if (gradient_of.form != Gelu::none) gelu_backward(dinp, gradient_of, stream());
  };
  Ways ways;
  const GemmProblem fused = with(plain, Epilogue::dgelu);
  const GemmOperands operands{weight.data(), dout.data(), dinp.data(), nullptr,
                              const_cast<void*>(options.pre.data())};
  if (fuses && gemm_.supports(fused, operands)) {
    ways.push_back({[&] {
                      gemm_.run(fused, operands);
                      sums({});
                    },
                    [&] { sums({}); }, kGeluGradientPassWeight});
  }
  ways.push_back({[&] {
                    gemm_.run(plain, {weight.data(), dout.data(), dinp.data()});
                    sums(before);
                  },
                  [&] { sums(before); }, kGeluGradientPassWeight});
  if (own) {
    ways.push_back({.run = [&] {
      gelu_product(dinp.data(), partial, dout.data(), weight.data(), options.pre.data(), shape,
                   stream());
    }});
  }
  const size_t way = gemm_.fastest(fused, ways);
  ways[way].run();
  if (own && way + 1 == ways.size()) parts = gelu_product_parts(shape);
  if (partial != nullptr) sum_parts(options.dbias, partial, parts, Grad::accumulate, stream());
}

void CudaBackend::do_linear_backward_weight(Tensor dweight, Tensor dbias, ConstTensor inp,
                                            ConstTensor dout, Grad mode) {
  const int64_t rows = inp.rows(), n = dout.last(), k = inp.last();
  if (rows == 0) {
    if (mode == Grad::overwrite) {
      do_fill_zero(dweight);
      if (dbias) do_fill_zero(dbias);
    }
    return;
  }
  GemmProblem plain{.m = k,
                    .n = n,
                    .k = rows,
                    .trans_a = false,
                    .trans_b = true,
                    .lda = k,
                    .ldb = n,
                    .ldd = k,
                    .in = inp.dtype(),
                    .out = dweight.dtype()};
  plain.accumulate = mode == Grad::accumulate;
  GemmOperands operands{inp.data(), dout.data(), dweight.data()};
  if (eight_bit_fits(rows, n, k, inp.dtype()) && dout.dtype() == DType::bf16) {
    eight_bit_backward_weight(dweight, inp, dout, mode);
    if (dbias) column_sum(dbias, dout, mode);
    return;
  }
  if (dbias.none()) return gemm_.run(plain, operands);

  // The epilogue reads dout anyway and can sum its columns, in the type of dweight; only where
  // that is f32 the sums are exact enough to be worth having.
  const GemmProblem fused = with(plain, Epilogue::bgradb);
  const int stripes = column_sum_stripes(rows, n);
  float* partial = scratch<float>(stripes * n);
  GemmOperands with_sums = operands;
  with_sums.bias = partial;
  const auto sum_columns = [&] {
    column_sum_partials(partial, Tensor(const_cast<void*>(dout.data()), dout.dtype(), {rows, n}),
                        {}, stream());
  };
  if (dweight.dtype() == DType::f32 && inp.dtype() != DType::f32 &&
      gemm_.supports(fused, with_sums)) {
    const size_t choice = gemm_.choose(fused, {[&] { return gemm_.seconds(fused, with_sums); },
                                               [&] {
                                                 sum_columns();
                                                 return gemm_.seconds(plain, operands) +
                                                        kPassWeight * gemm_.measure(sum_columns);
                                               }});
    if (choice == 0) {
      gemm_.run(fused, with_sums);
      return sum_parts(dbias, partial, 1, mode, stream());
    }
  }
  gemm_.run(plain, operands);
  sum_columns();
  sum_parts(dbias, partial, stripes, mode, stream());
}

void CudaBackend::column_sum(Tensor out, ConstTensor x, Grad mode, const BeforeGelu& before) {
  const int stripes = column_sum_stripes(x.rows(), x.last());
  float* partial = scratch<float>(stripes * x.last());
  column_sum_partials(partial, Tensor(const_cast<void*>(x.data()), x.dtype(), x.shape()), before,
                      stream());
  sum_parts(out, partial, stripes, mode, stream());
}

void CudaBackend::leading_column_sum(Tensor out, ConstTensor x) {
  const int stripes = column_sum_stripes(x.rows(), out.count());
  float* partial = scratch<float>(stripes * out.count());
  leading_column_sum_partials(partial, x, out.count(), stream());
  sum_parts(out, partial, stripes, Grad::accumulate, stream());
}

}  // namespace stretto::cuda
