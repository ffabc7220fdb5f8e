#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/fs.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace stretto {
namespace {

std::string file_with(const std::string& header, size_t data) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data, '\0');
}

Safetensors parse(const std::string& bytes) {
  return parse_safetensors(bytes, static_cast<int64_t>(bytes.size()), "f");
}

TEST(Safetensors, ReadsWhatItWrites) {
  std::vector<StTensor> tensors = {{"a", "F32", {2, 3}, 0, 0},
                                   {"b", "BF16", {}, 0, 0},
                                   {"empty", "I64", {0, 5}, 0, 0},
                                   {"c", "U8", {3}, 0, 0}};
  const std::string head = safetensors_head(tensors, {{"format", "pt"}});
  EXPECT_EQ(head.size() % 64, 0u);
  const Safetensors file = parse(head + std::string(24 + 2 + 3, '\0'));
  ASSERT_EQ(file.tensors.size(), 4u);
  EXPECT_EQ(file.metadata.at("format"), "pt");
  for (const StTensor& tensor : tensors) {
    const StTensor* found = file.find(tensor.name);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->shape, tensor.shape);
    EXPECT_EQ(found->type, tensor.type);
    EXPECT_EQ(found->begin, tensor.begin);
    EXPECT_EQ(found->end, tensor.end);
  }
  EXPECT_EQ(file.find("d"), nullptr);
}

TEST(Safetensors, OpensFiles) {
  const TempDir dir;
  dir.write("a", file_with(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4));
  EXPECT_EQ(open_safetensors(*posix_fs().map(dir / "a")).tensors.size(), 1u);
  dir.write("b", "short");
  EXPECT_ERROR(open_safetensors(*posix_fs().map(dir / "b")), ExitCode::bad_data, "8 bytes");
}

TEST(Safetensors, RefusesEveryAmbiguity) {
  const std::string good = R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  EXPECT_EQ(parse(file_with(good, 4)).tensors.size(), 1u);
  EXPECT_EQ(parse(file_with(good + "   ", 4)).tensors.size(), 1u);
  const std::pair<std::string, size_t> bad[] = {
      {good, 3},        // too short
      {good, 5},        // bytes behind
      {" " + good, 4},  // not {
      {"", 0},
      {"[]", 0},
      {good + "x", 4},
      {R"({"t":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", 4},
      {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4},
      {R"({"t":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4},
      {R"({"t":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4},
      {R"({"t":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4},
      {R"({"t":{"dtype":"F32","shape":[1]}})", 4},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8},  // a hole
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("u":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       4},  // overlap
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("t":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       8},  // twice
      {R"({"t":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,0]}})", 0},
      {R"({"t":{"dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4]}})", 4},
      {R"({"__metadata__":{"a":1}})", 0},
      {R"({"__metadata__":[]})", 0},
      {"{\"\xff\":1}", 0},
      {std::string(100, '{'), 0},
  };
  for (const auto& [header, data] : bad) {
    EXPECT_ERROR(parse(file_with(header, data)), ExitCode::bad_data, "f");
  }
}

TEST(Safetensors, LengthsAreCheckedFirst) {
  std::string bytes = file_with("{}", 0);
  bytes[7] = '\x7f';
  EXPECT_ERROR(parse(bytes), ExitCode::bad_data, "header of");
  EXPECT_ERROR(parse("1234567"), ExitCode::bad_data, "8 bytes");
  // A file may be long enough for any header: nobody allocates one of many gigabytes.
  const auto head_of = [](uint64_t length) {
    char first[8];
    std::memcpy(first, &length, 8);
    return safetensors_head_bytes({first, 8}, int64_t{1} << 50, "f");
  };
  EXPECT_EQ(head_of(kMaxStHeader), 8 + kMaxStHeader);
  EXPECT_ERROR(head_of(kMaxStHeader + 1), ExitCode::bad_data, "header of");
  EXPECT_ERROR(head_of(~uint64_t{0}), ExitCode::bad_data, "header of");
  bytes = file_with("{}", 0);
  EXPECT_ERROR(parse_safetensors(std::string_view(bytes).substr(0, 9), 10, "f"), ExitCode::bad_data,
               "cut off");
}

TEST(Safetensors, WidensExactly) {
  const uint16_t narrow[2] = {0x3fc0, 0xc000};  // 1.5, -2 in bf16
  char bytes[5];
  std::memcpy(bytes + 1, narrow, 4);  // not aligned
  float out[2];
  floats_from(out, bytes + 1, DType::bf16, 2);
  EXPECT_EQ(out[0], 1.5f);
  EXPECT_EQ(out[1], -2.0f);
  EXPECT_ERROR(floats_from(out, bytes, DType::i32, 1), ExitCode::bad_data, "i32");
}

}  // namespace
}  // namespace stretto
