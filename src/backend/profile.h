// What a backend did: for each operator how often, how long, and how many FLOPs and bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace stretto {

enum class OpClass : uint8_t { matmul, attention, other, optimizer, copy };
constexpr int kOpClasses = 5;

enum class Op : uint8_t {
  embedding_forward,
  embedding_backward,
  layernorm_forward,
  layernorm_backward,
  linear_forward,
  linear_backward_input,
  linear_backward_weight,
  gelu_forward,
  add,
  attention_forward,
  attention_backward,
  attention_decode,
  qkv_bias_backward,
  cross_entropy_forward,
  cross_entropy_backward,
  gradient_stats,
  adamw,
  convert,
  copy,
  fill,
};
constexpr int kOps = static_cast<int>(Op::fill) + 1;

const char* name_of(Op op);
const char* name_of(OpClass op_class);
OpClass class_of(Op op);

struct OpTotals {
  uint64_t calls = 0;
  double seconds = 0;
  // Multiply-adds count as two; work that depends on the mask (causal) as executed.
  double flops = 0;
  double bytes = 0;  // each operand once
};

class Profile {
 public:
  void add(Op op, double flops, double bytes);
  void add_seconds(Op op, double seconds) { *seconds_of(op) += seconds; }
  double* seconds_of(Op op) { return &totals_[static_cast<size_t>(op)].seconds; }  // to be added to
  void add(const Profile& other);  // all of its operators
  void reset() { totals_ = {}; }

  const OpTotals& of(Op op) const { return totals_[static_cast<size_t>(op)]; }
  OpTotals of(OpClass op_class) const;
  OpTotals all() const;

 private:
  std::array<OpTotals, kOps> totals_{};
};

}  // namespace stretto
