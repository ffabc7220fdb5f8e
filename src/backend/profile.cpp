#include "backend/profile.h"

namespace stretto {
namespace {

struct Row {
  const char* name;
  OpClass op_class;
};

constexpr Row kRows[kOps] = {
    {"embedding_forward", OpClass::other},
    {"embedding_backward", OpClass::other},
    {"layernorm_forward", OpClass::other},
    {"layernorm_backward", OpClass::other},
    {"linear_forward", OpClass::matmul},
    {"linear_backward_input", OpClass::matmul},
    {"linear_backward_weight", OpClass::matmul},
    {"gelu_forward", OpClass::other},
    {"add", OpClass::other},
    {"attention_forward", OpClass::attention},
    {"attention_backward", OpClass::attention},
    {"attention_decode", OpClass::attention},
    {"qkv_bias_backward", OpClass::other},
    {"cross_entropy_forward", OpClass::other},
    {"cross_entropy_backward", OpClass::other},
    {"gradient_stats", OpClass::optimizer},
    {"adamw", OpClass::optimizer},
    {"convert", OpClass::other},
    {"copy", OpClass::copy},
    {"fill", OpClass::copy},
};

void accumulate(OpTotals& sum, const OpTotals& t) {
  sum.calls += t.calls;
  sum.seconds += t.seconds;
  sum.flops += t.flops;
  sum.bytes += t.bytes;
}

}  // namespace

const char* name_of(Op op) { return kRows[static_cast<size_t>(op)].name; }
OpClass class_of(Op op) { return kRows[static_cast<size_t>(op)].op_class; }

const char* name_of(OpClass op_class) {
  constexpr const char* kNames[kOpClasses] = {"matmul", "attention", "other", "optimizer", "copy"};
  return kNames[static_cast<size_t>(op_class)];
}

void Profile::add(Op op, double flops, double bytes) {
  OpTotals& t = totals_[static_cast<size_t>(op)];
  t.calls += 1;
  t.flops += flops;
  t.bytes += bytes;
}

void Profile::add(const Profile& other) {
  for (size_t i = 0; i < totals_.size(); ++i) accumulate(totals_[i], other.totals_[i]);
}

OpTotals Profile::of(OpClass op_class) const {
  OpTotals sum;
  for (int i = 0; i < kOps; ++i) {
    if (kRows[i].op_class == op_class) accumulate(sum, totals_[static_cast<size_t>(i)]);
  }
  return sum;
}

OpTotals Profile::all() const {
  OpTotals sum;
  for (const OpTotals& t : totals_) accumulate(sum, t);
  return sum;
}

}  // namespace stretto
