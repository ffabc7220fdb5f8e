// Event files byte for byte, as a strict reader of the format finds them.
#include "train/event_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "support/event_reader.h"
#include "support/expect_error.h"
#include "support/fault_fs.h"

namespace stretto {
namespace {

using test::EventReader;
using test::FaultFs;
using test::ReadEvent;

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void write(EventFile& file, int64_t step) {
  const Scalar scalars[] = {{"lm loss", 1.0 / static_cast<double>(step)}};
  file.write(step, scalars);
}

// Of the only file.
std::string content_in(const TempDir& dir) {
  const std::set<std::string> names = test::event_files(dir.path());
  EXPECT_EQ(names.size(), 1u);
  return names.empty() ? "" : content_of(dir / *names.begin());
}

std::vector<int64_t> steps_in(const std::string& content) {
  std::vector<int64_t> steps;
  for (const ReadEvent& event : EventReader::read(content)) {
    if (!event.scalars.empty()) steps.push_back(event.step);
  }
  return steps;
}

TEST(EventFile, HoldsWhatTensorBoardWants) {
  const TempDir dir(Where::memory);
  const double before = now();
  {
    EventFile file(posix_fs(), dir / "deep/run", 6);
    const std::string long_tag(300, 't');  // its length takes two bytes
    const Scalar scalars[] = {{"lm loss", 0.1},
                              {"", -2e-300},
                              {long_tag, 16777217.0},
                              {"nan", std::nan("")},
                              {"inf", std::exp(1e4)}};
    file.write(7, scalars);
    file.write(int64_t{1} << 40, {});
  }
  const std::set<std::string> names = test::event_files(dir / "deep/run");
  ASSERT_EQ(names.size(), 1u);
  const std::vector<ReadEvent> events =
      EventReader::read(content_of(dir / "deep/run/" + *names.begin()));
  ASSERT_EQ(events.size(), 4u);
  for (const ReadEvent& event : events) {
    EXPECT_GE(event.wall_time, before);
    EXPECT_LE(event.wall_time, now());
  }
  EXPECT_EQ(events[0].fields, (std::vector<int>{1, 3}));
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[1].fields, (std::vector<int>{1, 2, 7}));
  EXPECT_TRUE(events[1].start);
  EXPECT_EQ(events[1].step, 7);
  EXPECT_EQ(events[2].fields, (std::vector<int>{1, 2, 5}));
  EXPECT_EQ(events[2].step, 7);
  ASSERT_EQ(events[2].scalars.size(), 5u);
  EXPECT_EQ(events[2].scalars[0], (std::pair<std::string, float>{"lm loss", 0.1f}));
  EXPECT_EQ(events[2].scalars[1], (std::pair<std::string, float>{"", 0.0f}));
  EXPECT_EQ(events[2].scalars[2], (std::pair<std::string, float>{std::string(300, 't'), 0x1p24f}));
  EXPECT_TRUE(std::isnan(events[2].scalars[3].second));
  EXPECT_EQ(events[2].scalars[4].second, std::numeric_limits<float>::infinity());
  EXPECT_EQ(events[3].step, int64_t{1} << 40);
}

// As every file that TensorFlow or PyTorch writes begins, but for the time of day.
TEST(EventFile, BeginsAsOthersDo) {
  const TempDir dir(Where::memory);
  const EventFile file(posix_fs(), dir.path(), 0);
  const std::string content = content_in(dir);
  EXPECT_EQ(content.substr(0, 12), std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12));
  EXPECT_EQ(content[12], '\x09') << "the time: field 1, eight bytes";
  EXPECT_EQ(content.substr(21, 15),
            "\x1a\x0d"
            "brain.Event:2");
}

TEST(EventFile, LaterStartsHaveLaterNames) {
  const TempDir dir(Where::memory);
  std::vector<std::string> in_order;
  const auto start = [&] {
    const std::set<std::string> before = test::event_files(dir.path());
    const EventFile file(posix_fs(), dir.path(), 0);
    for (const std::string& name : test::event_files(dir.path())) {
      if (before.count(name) == 0) in_order.push_back(name);
    }
  };
  for (int i = 0; i < 3; ++i) start();  // within a second
  dir.write("events.out.tfevents.4000000000.machine-of-the-future", "");
  start();
  dir.write("events.out.tfevents.99999999999999999999.nonsense", "");
  dir.write("events.out.tfevents.9999999999.nonsense", "");
  dir.write("events.out.tfevents.", "");
  start();
  ASSERT_EQ(in_order.size(), 5u);
  EXPECT_TRUE(std::is_sorted(in_order.begin(), in_order.end()));
  EXPECT_TRUE(in_order[3].starts_with("events.out.tfevents.4000000001.")) << in_order[3];
  EXPECT_TRUE(in_order[4].starts_with("events.out.tfevents.4000000002.")) << in_order[4];
}

// After the last second that a name can hold, too, each start has a file of its own.
TEST(EventFile, StartsDoNotShareAFile) {
  const TempDir dir(Where::memory);
  dir.write("events.out.tfevents.9999999998.x", "");
  for (int i = 0; i < 3; ++i) EventFile(posix_fs(), dir.path(), 0);
  EXPECT_EQ(test::event_files(dir.path()).size(), 4u);
}

// The disk is full from the start, takes a part of a record at times, and then has room again.
TEST(EventFile, WhatCannotBeWrittenWaits) {
  const TempDir dir(Where::memory);
  FaultFs fs(posix_fs());
  fs.fail_kind = "write";
  fs.error_number = ENOSPC;
  fs.fail_at = 0;
  fs.fail_from_then_on = true;
  EventFile file(fs, dir.path(), 0);
  write(file, 1);
  file.sync();
  EXPECT_EQ(content_in(dir), "");
  fs.torn_write = true;
  write(file, 2);
  const size_t torn = content_in(dir).size();
  EXPECT_GT(torn, 0u);
  write(file, 3);
  EXPECT_GT(content_in(dir).size(), torn);
  EXPECT_THROW(EventReader::read(content_in(dir)), std::runtime_error) << "no record's end";
  fs.error_number = 0;
  write(file, 4);
  EXPECT_EQ(steps_in(content_in(dir)), (std::vector<int64_t>{1, 2, 3, 4}));
}

// Whoever removes the file while the disk is full gets a new one that begins with a whole record.
TEST(EventFile, AFileThatIsGoneIsBegunAnew) {
  for (const bool full : {false, true}) {
    const TempDir dir(Where::memory);
    FaultFs fs(posix_fs());
    EventFile file(fs, dir.path(), 0);
    write(file, 1);
    if (full) {
      fs.fail_kind = "write";
      fs.error_number = ENOSPC;
      fs.fail_at = 0;
      fs.fail_from_then_on = fs.torn_write = true;
    }
    write(file, 2);
    std::filesystem::remove(dir / *test::event_files(dir.path()).begin());
    file.sync();
    if (!full) {
      EXPECT_EQ(EventReader::read(content_in(dir)).size(), 2u) << "it has its beginning";
    }
    fs.error_number = 0;
    write(file, 3);
    EXPECT_EQ(steps_in(content_in(dir)),
              full ? (std::vector<int64_t>{2, 3}) : std::vector<int64_t>{3});
    const std::vector<ReadEvent> events = EventReader::read(content_in(dir));
    EXPECT_EQ(events[0].file_version, "brain.Event:2");
    EXPECT_TRUE(events[1].start);
  }
}

TEST(EventFile, NoDirectoryNoFile) {
  EventFile none(posix_fs(), "", 0);
  write(none, 1);
  none.sync();
  const TempDir dir(Where::memory);
  EXPECT_ERROR(EventFile(posix_fs(), dir.write("file", ""), 0), ExitCode::cannot_create, "file");
  FaultFs fs(posix_fs());
  fs.fail_kind = "open_append";
  fs.error_number = EROFS;
  fs.fail_at = 0;
  EXPECT_ERROR(EventFile(fs, dir.path(), 0), ExitCode::cannot_create, "events.out.tfevents.");
}

}  // namespace
}  // namespace stretto
