// What every transport must do, as functions of a Comm: run by all ranks of it.
// Inputs are small integers, so sums are exact in every type and any order: results are compared
// exactly.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "comm/comm.h"

namespace stretto::contract {

// Owns elements of a run-time type; values go in and come out as double.
class Array {
 public:
  Array(DType type, int64_t count) : type_(type), bytes_(count * dtype_size(type)), count_(count) {}

  Tensor tensor() { return {bytes_.data(), type_, {count_}}; }
  ConstTensor tensor() const { return {bytes_.data(), type_, {count_}}; }
  int64_t count() const { return count_; }

  void set(int64_t i, double value) {
    char* to = bytes_.data() + i * dtype_size(type_);
    switch (type_) {
      case DType::f32:
        return put(to, static_cast<float>(value));
      case DType::f64:
        return put(to, value);
      case DType::bf16:
        return put(to, to_bf16(static_cast<float>(value)));
      case DType::f16:
        return put(to, to_f16(static_cast<float>(value)));
      case DType::i32:
        return put(to, static_cast<int32_t>(value));
      case DType::u16:
        return put(to, static_cast<uint16_t>(value));
      default:
        return put(to, static_cast<uint8_t>(value));
    }
  }

  double get(int64_t i) const {
    const char* from = bytes_.data() + i * dtype_size(type_);
    switch (type_) {
      case DType::f32:
        return take<float>(from);
      case DType::f64:
        return take<double>(from);
      case DType::bf16:
        return to_float(take<bf16_t>(from));
      case DType::f16:
        return to_float(take<f16_t>(from));
      case DType::i32:
        return take<int32_t>(from);
      case DType::u16:
        return take<uint16_t>(from);
      default:
        return take<uint8_t>(from);
    }
  }

 private:
  template <typename T>
  static void put(char* to, T value) {
    std::memcpy(to, &value, sizeof(T));
  }
  template <typename T>
  static T take(const char* from) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
  }

  DType type_;
  std::vector<char> bytes_;
  int64_t count_;
};

using Case = void (*)(Comm&);
struct Named {
  const char* name;
  Case run;
};

// Every case of the contract; `rng` free, so that all ranks and transports do the same.
const std::vector<Named>& cases();

}  // namespace stretto::contract
