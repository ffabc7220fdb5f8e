#include "reference/embedding.h"

#include "support/ops.h"
#include "support/threads.h"

namespace stretto::test {
namespace {

struct Case {
  int64_t batch, length, width, vocab;
  int64_t vocab_begin = 0, first_position = 0;
  bool wpe = true;
};
constexpr Case kCases[] = {
    {1, 1, 1, 1},
    {2, 3, 5, 7},
    {3, 17, 64, 11},
    {2, 31, 97, 50, 0, 4},
    {4, 40, 300, 13, 0, 0},
    {2, 9, 33, 20, 10},
    {1, 13, 16, 5, 3, 2, false},
    {5, 100, 520, 3},
};

// Tokens of the whole vocabulary [0, 2 * vocab), so that shards see foreign ones.
Operand tokens_of(const Case& c) {
  Operand tokens(DType::i32, {c.batch, c.length});
  const CounterRng rng(1, 2);
  Values values;
  const int64_t range = c.vocab_begin > 0 ? c.vocab_begin + 2 * c.vocab : c.vocab;
  for (int64_t i = 0; i < tokens.count(); ++i) {
    values.push_back(
        static_cast<double>(rng.bits(static_cast<uint64_t>(i)) % static_cast<uint64_t>(range)));
  }
  tokens.set(values);
  return tokens;
}

int64_t positions(const Case& c) { return c.length + c.first_position; }

TEST(Embedding, ForwardIsTheRoundedSum) {
  for (const DType type : kComputeTypes) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(fmt::format("{} ({}, {}, {})", dtype_name(type), c.batch, c.length, c.width));
      const Operand wte = Operand::random(type, {c.vocab, c.width}, 1);
      const Operand wpe = c.wpe ? Operand::random(type, {positions(c), c.width}, 2) : Operand();
      const Operand tokens = tokens_of(c);
      const Operand out = Operand::output(type, {c.batch, c.length, c.width});
      cpu().embedding_forward(out, tokens, wte, wpe, c.vocab_begin, c.first_position);
      const Values expected = reference::embedding_forward(
          tokens.values(), static_cast<size_t>(c.length), wte.values(), wpe.values(),
          static_cast<size_t>(c.width), c.vocab_begin, c.first_position);
      EXPECT_EQ(out.values(), Operand(type, out.shape(), expected).values());
      EXPECT_TRUE(out.guards_intact());
    }
  }
}

TEST(Embedding, BackwardAgreesWithDoubleAndAccumulates) {
  for (const DType type : kComputeTypes) {
    for (const DType grad_type : {DType::f32, DType::bf16}) {
      for (const Case& c : kCases) {
        SCOPED_TRACE(fmt::format("{} {} ({}, {}, {})", dtype_name(type), dtype_name(grad_type),
                                 c.batch, c.length, c.width));
        const Operand dout = Operand::random(type, {c.batch, c.length, c.width}, 3);
        const Operand tokens = tokens_of(c);
        const Operand dwte = Operand::random(grad_type, {c.vocab, c.width}, 4);
        const Operand dwpe =
            c.wpe ? Operand::random(grad_type, {positions(c), c.width}, 5) : Operand();
        Values expect_wte = dwte.values(), expect_wpe = dwpe.values();
        reference::embedding_backward(expect_wte, expect_wpe, dout.values(), tokens.values(),
                                      static_cast<size_t>(c.length), static_cast<size_t>(c.width),
                                      c.vocab_begin, c.first_position);
        cpu().embedding_backward(dwte, dwpe, dout, tokens, c.vocab_begin, c.first_position);
        // Rounded once: a bf16 gradient gets the f32 sum of all its terms, not one term at a time.
        const double coefficient = grad_type == DType::bf16 ? 0.51 : 16;
        EXPECT_TRUE(close(dwte, expect_wte, grad_type, coefficient));
        EXPECT_TRUE(close(dwpe, expect_wpe, grad_type, coefficient));
      }
    }
  }
}

TEST(Embedding, BackwardIsTheDerivative) {
  const Case c{2, 3, 4, 5};
  const Operand tokens = tokens_of(c);
  const Values dout = Operand::random(DType::f32, {2, 3, 4}, 3).values();
  const Values wte = Operand::random(DType::f32, {5, 4}, 1).values();
  const Values wpe = Operand::random(DType::f32, {3, 4}, 2).values();
  const auto loss = [&](const Values& e, const Values& p) {
    return dot(reference::embedding_forward(tokens.values(), 3, e, p, 4, 0, 0), dout);
  };
  Values dwte(20, 0.0), dwpe(12, 0.0);
  reference::embedding_backward(dwte, dwpe, dout, tokens.values(), 3, 4, 0, 0);
  EXPECT_TRUE(close_values(
      dwte, central_differences([&](const Values& v) { return loss(v, wpe); }, wte), 1e-8));
  EXPECT_TRUE(close_values(
      dwpe, central_differences([&](const Values& v) { return loss(wte, v); }, wpe), 1e-8));
}

TEST(Embedding, OneTableAtATime) {
  const Case c{2, 7, 10, 4};
  const Operand tokens = tokens_of(c), dout = Operand::random(DType::f32, {2, 7, 10}, 3);
  const Operand both_e = Operand::zeros(DType::f32, {4, 10}), only_e = both_e;
  const Operand both_p = Operand::zeros(DType::f32, {7, 10}), only_p = both_p;
  cpu().embedding_backward(both_e, both_p, dout, tokens);
  cpu().embedding_backward(only_e, {}, dout, tokens);
  cpu().embedding_backward({}, only_p, dout, tokens);
  EXPECT_TRUE(both_e.same_bits(only_e));
  EXPECT_TRUE(both_p.same_bits(only_p));
}

TEST(Embedding, ThreadsDoNotMatter) {
  const Case c{5, 400, 300, 37};
  const Operand tokens = tokens_of(c);
  for (const DType type : kComputeTypes) {
    const Operand wte = Operand::random(type, {37, 300}, 1);
    const Operand wpe = Operand::random(type, {400, 300}, 2);
    expect_same_for_all_threads([&](Backend& backend) {
      const Operand out = Operand::output(type, {5, 400, 300});
      const Operand dwte = Operand::zeros(DType::f32, {37, 300});
      const Operand dwpe = Operand::zeros(DType::f32, {400, 300});
      backend.embedding_forward(out, tokens, wte, wpe);
      backend.embedding_backward(dwte, dwpe, out, tokens);
      return std::vector<Operand>{out, dwte, dwpe};
    });
  }
}

}  // namespace
}  // namespace stretto::test
