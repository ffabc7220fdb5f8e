#include "comm/monitor.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace stretto {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// The pid namespace of this process (containers have their own); 0: unknown.
uint64_t process_space() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

}  // namespace

const char* name_of(CommKind kind) {
  switch (kind) {
    case CommKind::none:
      return "none";
    case CommKind::all_reduce:
      return "all_reduce";
    case CommKind::reduce_scatter:
      return "reduce_scatter";
    case CommKind::all_gather:
      return "all_gather";
    case CommKind::broadcast:
      return "broadcast";
    case CommKind::send:
      return "send";
    case CommKind::recv:
      return "recv";
    case CommKind::barrier:
      return "barrier";
    case CommKind::split:
      return "split";
  }
  return "unknown";
}

const char* name_of(Section section) {
  switch (section) {
    case Section::init:
      return "init";
    case Section::step:
      return "step";
    case Section::eval:
      return "eval";
    case Section::save:
      return "save";
    case Section::done:
      return "done";
  }
  return "unknown";
}

GroupTag group_tag(std::string_view name) {
  GroupTag tag{};
  std::memcpy(tag.data(), name.data(), std::min(name.size(), sizeof(tag)));
  return tag;
}

std::string group_name(const GroupTag& tag) {
  char text[sizeof(tag) + 1] = {};
  std::memcpy(text, tag.data(), sizeof(tag));
  return text;
}

StatusBoard StatusBoard::in_process(int ranks) {
  struct Memory {
    explicit Memory(int n) : rows(static_cast<size_t>(n)) {}
    std::vector<RankStatus> rows;
    std::atomic<uint32_t> reporter{0};
  };
  auto memory = std::make_shared<Memory>(ranks);
  return {memory, memory->rows.data(), ranks, &memory->reporter};
}

void FlightRecorder::start(uint64_t seq, CommKind kind, uint64_t bytes, const GroupTag& group) {
  Slot& slot = slots_[seq % kEntries];
  slot.state.store(static_cast<uint32_t>(State::started), kRelaxed);
  slot.kind.store(static_cast<uint32_t>(kind), kRelaxed);
  slot.bytes.store(bytes, kRelaxed);
  slot.group[0].store(group[0], kRelaxed);
  slot.group[1].store(group[1], kRelaxed);
  slot.seq.store(seq, kRelaxed);
  newest_.store(seq, kRelaxed);
}

void FlightRecorder::finish(uint64_t seq) {
  Slot& slot = slots_[seq % kEntries];
  // 4096 calls later the slot belongs to another operation.
  if (slot.seq.load(kRelaxed) != seq) return;
  slot.state.store(static_cast<uint32_t>(State::done), kRelaxed);
}

std::vector<FlightRecorder::Entry> FlightRecorder::last(size_t count) const {
  const uint64_t newest = newest_.load(kRelaxed);
  const uint64_t n = std::min<uint64_t>({newest, count, kEntries});
  std::vector<Entry> out;
  for (uint64_t seq = newest - n + 1; seq <= newest && n > 0; ++seq) {
    const Slot& slot = slots_[seq % kEntries];
    out.push_back({slot.seq.load(kRelaxed),
                   static_cast<CommKind>(slot.kind.load(kRelaxed)),
                   static_cast<State>(slot.state.load(kRelaxed)),
                   slot.bytes.load(kRelaxed),
                   {slot.group[0].load(kRelaxed), slot.group[1].load(kRelaxed)}});
  }
  return out;
}

std::string FlightRecorder::text(size_t count) const {
  std::string out;
  for (const Entry& entry : last(count)) {
    out +=
        fmt::format("#{} {} {} bytes, group {}, {}\n", entry.seq, name_of(entry.kind), entry.bytes,
                    group_name(entry.group), entry.state == State::done ? "done" : "not finished");
  }
  return out;
}

std::string place_of(const RankStatus& row) {
  const auto section = static_cast<Section>(row.section.load(kRelaxed));
  const int64_t step = row.step.load(kRelaxed);
  const int stage = row.stage.load(kRelaxed);
  std::string text = section == Section::step ? fmt::format("step {}", step)
                     : step < 0               ? std::string(name_of(section))
                                : fmt::format("{} at step {}", name_of(section), step);
  if (stage >= 0) text += fmt::format(" (stage {})", stage);
  return text;
}

bool process_ended(const RankStatus& row) {
  static const uint64_t mine = process_space();
  const int process = row.process.load(kRelaxed);
  if (process <= 0 || process == ::getpid() || mine == 0 || row.space.load(kRelaxed) != mine) {
    return false;
  }
  return ::kill(process, 0) != 0 && errno == ESRCH;
}

RankMonitor::RankMonitor(StatusBoard board, int row, int rank)
    : board_(std::move(board)), row_(row), rank_(rank) {
  status().rank.store(rank, kRelaxed);
  status().process.store(::getpid(), kRelaxed);
  status().space.store(process_space(), kRelaxed);
  beat();
}

void RankMonitor::enter(Section section, int64_t step) {
  status().section.store(static_cast<uint32_t>(section), kRelaxed);
  status().step.store(step, kRelaxed);
  beat();
}

std::string RankMonitor::who() const {
  const bool starting = status().section.load(kRelaxed) == static_cast<uint32_t>(Section::init);
  return starting ? fmt::format("rank {}", rank_)
                  : fmt::format("rank {} in {}", rank_, place_of(status()));
}

uint64_t RankMonitor::begin(CommKind kind, uint64_t bytes, const GroupTag& group) {
  ++seq_;
  recorder_.start(seq_, kind, bytes, group);
  status().seq.store(seq_, kRelaxed);
  beat();
  return seq_;
}

void RankMonitor::finish(uint64_t seq) { recorder_.finish(seq); }

void RankMonitor::wait_begins(CommKind kind, uint64_t bytes, const GroupTag& group) {
  status().bytes.store(bytes, kRelaxed);
  status().group[0].store(group[0], kRelaxed);
  status().group[1].store(group[1], kRelaxed);
  status().waits_in.store(static_cast<uint32_t>(kind), kRelaxed);
}

void RankMonitor::wait_ends() {
  status().waits_in.store(static_cast<uint32_t>(CommKind::none), kRelaxed);
  beat();
}

}  // namespace stretto
