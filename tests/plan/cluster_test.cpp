// Cluster and software files: all embedded ones read, every bad field is named with its fix.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "plan/stack_reader.h"
#include "plan_support.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

// Of tests/fuzz/cluster_fuzz.cpp.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace stretto::plan {
namespace {

std::string h100_text() { return content_of(STRETTO_SOURCE_DIR "/configs/clusters/h100.yaml"); }

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

void expect_error(const std::string& text, const std::string& field, const std::string& fix) {
  try {
    read_cluster(text, "test.yaml");
    FAIL() << "accepted; expected an error about " << field;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::bad_config);
    EXPECT_NE(std::string(e.what()).find(field), std::string::npos) << e.what();
    EXPECT_NE(e.hint().find(fix), std::string::npos) << e.hint();
  }
}

TEST(ClusterFiles, AllReadAndEveryFieldHasUnitAndSource) {
  EXPECT_GE(cluster_names().size(), 8u);
  for (const std::string& name : cluster_names()) {
    const Cluster c = find_cluster(name);
    EXPECT_EQ(c.name, name);
    EXPECT_GE(c.fields.size(), 15u);
    for (const Field& f : c.fields) EXPECT_FALSE(f.unit.empty());
  }
  EXPECT_NEAR(find_cluster("h100").matrix_flops, 989.5e12, 1);
  const Cluster a100 = find_cluster("a100-80");
  EXPECT_NEAR(a100.memory_bytes, 80 * 1073741824.0, 1);
  for (const Field& f : a100.fields) {  // as a reader wrote it
    if (f.key != "device.memory") continue;
    EXPECT_EQ(fmt::format("{} {}", f.value, f.unit), "80 GiB");
  }
}

// Files from before the field was known: a device of theirs has some link to its host.
TEST(ClusterFiles, AFileMayLeaveOutTheLinkToTheHost) {
  std::string text = h100_text();
  const size_t begin = text.find("  host_bandwidth:"), end = text.find('\n', begin) + 1;
  ASSERT_NE(begin, std::string::npos);
  EXPECT_NEAR(read_cluster(text, "t.yaml").host_bandwidth, 54e9, 1);
  const Cluster c = read_cluster(text.erase(begin, end - begin), "t.yaml");
  EXPECT_NEAR(c.host_bandwidth, 27e9, 1);
  EXPECT_TRUE(std::any_of(c.fields.begin(), c.fields.end(), [](const Field& f) {
    return f.key == "node.host_bandwidth" && f.source == Source::default_value;
  }));
}

TEST(ClusterFiles, TheOrderOfSectionsDoesNotMatter) {
  const std::string text = h100_text();
  const size_t node = text.find("\nnode:"), tiers = text.find("\ntiers:");
  ASSERT_LT(node, tiers);
  const std::string moved =
      text.substr(0, node) + text.substr(tiers) + text.substr(node + 1, tiers - node);
  const Cluster a = read_cluster(text, "a.yaml"), b = read_cluster(moved, "b.yaml");
  const Stack stack = find_stack("stretto", a);
  const Workload w{shape(32, 4096, 32, 50368), 2048, 256, Precision::amp_bf16};
  Layout l;
  l.dp = 32;
  l.tp = 2;
  l.zero = 1;
  EXPECT_EQ(estimate(a, stack, w, l).seconds, estimate(b, stack, w, l).seconds);
}

TEST(ClusterFiles, BadFieldsAreNamed) {
  const std::string good = h100_text();
  read_cluster(good, "test.yaml");
  expect_error(replaced(good, "value: 3350, unit: GB/s", "value: 0, unit: GB/s"),
               "device.memory_bandwidth is zero", "true value");
  expect_error(replaced(good, "value: 3350, unit: GB/s", "value: nan, unit: GB/s"),
               "device.memory_bandwidth is 'nan'", "decimal");
  expect_error(replaced(good, "value: 3350, unit: GB/s", "value: -5, unit: GB/s"),
               "device.memory_bandwidth", "check the value");
  expect_error(replaced(good, "value: 3350, unit: GB/s,", "value: 3350,"),
               "device.memory_bandwidth has no unit", "GB/s");
  expect_error(replaced(good, "value: 3350, unit: GB/s", "value: 3350, unit: furlongs"), "furlongs",
               "GB/s");
  expect_error(replaced(good, "unit: GB/s, source: data sheet", "unit: GB/s, source: a friend"),
               "a friend", "data sheet");
  expect_error(replaced(good, "memory_bandwidth:", "memory_bandwith:"), "memory_bandwith",
               "memory_bandwidth");
  expect_error(replaced(good, "units: {value: 132", "units: {value: 132.5"), "device.units",
               "whole");
  expect_error("name: x\n", "device is missing", "add");
  expect_error("[1, 2]", "not a mapping", "key: value");
}

// Every single byte of a good file broken in turn: an answer or an Error, never anything else.
TEST(ClusterFiles, BrokenBytesAreAnswered) {
  const std::string good = h100_text();
  for (size_t i = 0; i < good.size(); i += 7) {
    for (char c : {'\0', '{', ':', '-', '9'}) {
      std::string bad = good;
      bad[i] = c;
      EXPECT_NO_THROW(
          LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bad.data()), bad.size()));
    }
  }
}

TEST(ClusterFiles, UnknownNamesGetASuggestion) {
  try {
    find_cluster("h10");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(e.hint().find("h100"), std::string::npos);
  }
  EXPECT_THROW(find_stack("composer", find_cluster("h100")), Error);
  EXPECT_THROW(find_cluster("no/such/file.yaml"), Error);
}

TEST(SoftwareFiles, AllReadOnEveryCluster) {
  for (const std::string& cluster : cluster_names()) {
    for (const std::string& stack : stack_names()) {
      const Stack s = find_stack(stack, find_cluster(cluster));
      EXPECT_EQ(s.name, stack);
      EXPECT_FALSE(s.free.empty());
      EXPECT_FALSE(s.fit_source.empty());
    }
  }
  EXPECT_TRUE(find_stack("composer-fsdp", find_cluster("h100")).fitted);
  EXPECT_FALSE(find_stack("composer-fsdp", find_cluster("gb200")).fitted);
}

TEST(SoftwareFiles, ConstantsAreKnownByTheirKeys) {
  EXPECT_THROW(constant_from_key("gem"), Error);
  EXPECT_EQ(constant_from_key("gemm"), Constant::gemm);
}

// What `calibrate --write` writes is what `--software` reads.
TEST(SoftwareFiles, AWrittenFileIsLaidOverItsSoftware) {
  const TempDir dir;
  const Cluster cluster = find_cluster("h100");
  Stack fitted = find_stack("stretto", cluster);
  const Stack before = fitted;
  fitted.constants.set(Constant::gemm, 0.4321);
  fitted.constants.set(Constant::net, 0.1234);
  const std::string path =
      dir.write("w.yaml", stack_file(fitted, device_entry(fitted, "h100", "8 own runs", 0.031)));
  const Stack read = find_stack(path, cluster);
  for (size_t i = 0; i < kConstants; ++i) {
    const auto id = static_cast<Constant>(i);
    EXPECT_NEAR(read.constants[id] / fitted.constants[id], 1, 1e-4) << info(id).key;
  }
  EXPECT_TRUE(read.fitted);
  EXPECT_EQ(read.fit_source, "8 own runs");
  EXPECT_DOUBLE_EQ(read.residual, 0.031);
  EXPECT_EQ(read.name, "stretto");
  EXPECT_TRUE(read.own_runtime);
  EXPECT_EQ(read.free, before.free);
  EXPECT_ERROR(find_stack(path, find_cluster("a100-80")), ExitCode::bad_config, "a100-80");
  EXPECT_ERROR(find_stack(dir / "none.yaml", cluster), ExitCode::no_input, "none.yaml");
  EXPECT_ERROR(find_stack(dir.write("b.yaml", "devices: {}\n"), cluster), ExitCode::bad_config,
               "software");
  EXPECT_ERROR(find_stack(dir.write("c.yaml", "software: c.yaml\ndevices: {}\n"), cluster),
               ExitCode::bad_config, "is a file");
}

}  // namespace
}  // namespace stretto::plan
