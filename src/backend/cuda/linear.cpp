// Matrix products of the layers. Row-major (rows, n) is column-major n x rows, so each product is
// handed to cuBLASLt with its operands swapped; no transposed copy is ever made.
//
// Where an epilogue can do the bias, GELU or bias gradient, it competes with a separate kernel of
// ours, and the faster of the two on this GPU and shape is taken.
#include "backend/cuda/column_sum.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cuda_check.h"

namespace stretto::cuda {
namespace {

GemmProblem forward_problem(int64_t rows, int64_t n, int64_t k, DType in, DType out) {
  return {.m = n,
          .n = rows,
          .k = k,
          .trans_a = true,
          .trans_b = false,
          .lda = k,
          .ldb = k,
          .ldd = n,
          .in = in,
          .out = out};
}

GemmProblem with(GemmProblem problem, Epilogue epilogue) {
  problem.epilogue = epilogue;
  return problem;
}

}  // namespace

void CudaBackend::do_linear_forward(Tensor out, ConstTensor inp, ConstTensor weight,
                                    ConstTensor bias, const LinearOptions& options) {
  if (out.count() == 0) return;
  const GemmProblem plain =
      forward_problem(inp.rows(), weight.rows(), weight.last(), inp.dtype(), out.dtype());
  const bool bias_fits = bias.none() || bias.dtype() == out.dtype();
  STRETTO_CHECK(bias_fits, "bias {} for out {}", dtype_name(bias.dtype()), dtype_name(out.dtype()));
  void* bias_data = const_cast<void*>(bias.data());
  const GemmProblem biased = bias.none() ? plain : with(plain, Epilogue::bias);

  const bool eight_bit = eight_bit_fits(inp.rows(), weight.rows(), weight.last(), inp.dtype());

  // Product and bias into `target`, by epilogue where there is one.
  const auto product = [&](Tensor target) {
    if (eight_bit) return eight_bit_forward(target, inp, weight, bias);
    const GemmOperands operands{weight.data(), inp.data(), target.data(), bias_data};
    if (gemm_.supports(biased, operands)) {
      gemm_.run(biased, operands);
    } else {
      gemm_.run(plain, {weight.data(), inp.data(), target.data()});
      bias_gelu(target, bias, Gelu::none, stream());
    }
  };
  if (options.gelu == Gelu::none) return product(out);

  const bool keep = !options.pre.none();
  const GemmProblem fused =
      with(plain, keep ? (bias.none() ? Epilogue::gelu_aux : Epilogue::gelu_aux_bias)
                       : (bias.none() ? Epilogue::gelu : Epilogue::gelu_bias));
  const GemmOperands operands{weight.data(), inp.data(), out.data(), bias_data, options.pre.data()};
  const auto in_one = [&] { gemm_.run(fused, operands); };
  const auto in_two = [&] {
    product(keep ? options.pre : out);
    if (keep) {
      do_gelu_forward(out, options.pre, options.gelu);
    } else {
      bias_gelu(out, {}, options.gelu, stream());
    }
  };
  // The library has the tanh form alone, and tanh to about 1e-5: enough for 16 bits, not for f32.
  const bool exact = inp.dtype() == DType::f32 || options.gelu == Gelu::exact;
  if (eight_bit || exact || !gemm_.supports(fused, operands)) return in_two();
  const auto timed = [this](const auto& work) {
    work();  // the first run chooses algorithms
    return std::min(gemm_.measure(work), gemm_.measure(work));
  };
  const size_t choice =
      gemm_.choose(fused, {[&] { return timed(in_one); }, [&] { return timed(in_two); }});
  choice == 0 ? in_one() : in_two();
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
  const GemmOperands operands{weight.data(), dout.data(), dinp.data(), nullptr,
                              const_cast<void*>(options.pre.data())};
  const int stripes = column_sum_stripes(rows, k);
  float* partial = options.dbias.none() ? nullptr : scratch<float>(stripes * k);

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
  const auto separate = [&] {
    gemm_.run(plain, {weight.data(), dout.data(), dinp.data()});
    if (gelu && partial == nullptr) return gelu_backward(dinp, before, stream());
    if (partial != nullptr) column_sum_partials(partial, dinp, before, stream());
  };
  const GemmProblem fused = with(plain, Epilogue::dgelu);
  const auto by_epilogue = [&] {
    gemm_.run(fused, operands);
    if (partial != nullptr) column_sum_partials(partial, dinp, {}, stream());
  };
  const bool exact =
      dout.dtype() == DType::f32 || options.gelu == Gelu::exact;  // as in the forward pass
  // The epilogue does not write GELU's output; our kernel does so in passing.
  if (gelu && !exact && options.act.none() && gemm_.supports(fused, operands)) {
    const auto timed = [this](const auto& work) {
      work();
      return std::min(gemm_.measure(work), gemm_.measure(work));
    };
    const size_t choice =
        gemm_.choose(fused, {[&] { return timed(by_epilogue); }, [&] { return timed(separate); }});
    choice == 0 ? by_epilogue() : separate();
  } else {
    separate();
  }
  if (partial != nullptr) sum_parts(options.dbias, partial, stripes, Grad::accumulate, stream());
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
    const size_t choice =
        gemm_.choose(fused, {[&] { return gemm_.seconds(fused, with_sums); },
                             [&] {
                               sum_columns();
                               return gemm_.seconds(plain, operands) + gemm_.measure(sum_columns);
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

}  // namespace stretto::cuda
