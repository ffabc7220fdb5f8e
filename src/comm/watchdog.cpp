#include "comm/watchdog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "base/host.h"
#include "base/start_thread.h"

namespace stretto {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr size_t kShownEntries = 4;

double seconds_since(const RankStatus& row, int64_t now_ns) {
  return static_cast<double>(now_ns - row.beat_ns.load(kRelaxed)) * 1e-9;
}

CommKind waits_in(const RankStatus& row) {
  return static_cast<CommKind>(row.waits_in.load(kRelaxed));
}

Section section_of(const RankStatus& row) {
  return static_cast<Section>(row.section.load(kRelaxed));
}

std::string wait_text(const RankStatus& row) {
  const GroupTag group = {row.group[0].load(kRelaxed), row.group[1].load(kRelaxed)};
  return fmt::format("{} #{} ({} bytes, group {})", name_of(waits_in(row)), row.seq.load(kRelaxed),
                     row.bytes.load(kRelaxed), group_name(group));
}

// Whether the row is no longer stamped: then its process has stopped, whatever the rank was doing.
bool process_stopped(const RankStatus& row, int64_t now_ns, double limit_seconds) {
  const int64_t alive = row.alive_ns.load(kRelaxed);
  if (alive == 0 || section_of(row) == Section::done) return false;
  return static_cast<double>(now_ns - alive) * 1e-9 > std::max(1.0, limit_seconds / 2);
}

// The ranks to blame: those whose process is stopped; otherwise those that do not wait for anyone.
// If all wait (one has skipped a call, or a peer on another machine is lost), those that have made
// the fewest calls.
std::vector<const RankStatus*> culprits(const StatusBoard& board, int64_t now_ns,
                                        double limit_seconds) {
  std::vector<const RankStatus*> stopped;
  for (int r = 0; r < board.count; ++r) {
    if (process_stopped(board.rows[r], now_ns, limit_seconds)) stopped.push_back(&board.rows[r]);
  }
  if (!stopped.empty()) return stopped;
  std::vector<const RankStatus*> active, computing, behind;
  uint64_t fewest = UINT64_MAX;
  for (int r = 0; r < board.count; ++r) {
    const RankStatus& row = board.rows[r];
    if (row.rank.load(kRelaxed) < 0 || section_of(row) == Section::done) continue;
    active.push_back(&row);
    if (waits_in(row) == CommKind::none) computing.push_back(&row);
    fewest = std::min(fewest, row.seq.load(kRelaxed));
  }
  if (!computing.empty()) return computing;
  for (const RankStatus* row : active) {
    if (row->seq.load(kRelaxed) == fewest) behind.push_back(row);
  }
  if (behind.size() == active.size()) behind.clear();  // nobody is behind the others
  return behind;
}

// " ranks 0, 2 wait in ...;" for each call in which ranks wait that are not blamed.
std::string others_wait(const StatusBoard& board, const std::vector<const RankStatus*>& blamed) {
  std::map<std::string, std::vector<int>> waiting;  // where -> ranks
  for (int r = 0; r < board.count; ++r) {
    const RankStatus& row = board.rows[r];
    if (std::find(blamed.begin(), blamed.end(), &row) != blamed.end()) continue;
    if (waits_in(row) == CommKind::none) continue;
    waiting[fmt::format("{}, {}", wait_text(row), place_of(row))].push_back(
        row.rank.load(kRelaxed));
  }
  std::string text;
  for (const auto& [where, ranks] : waiting) {
    text += fmt::format(" rank{} {} {} in {};", ranks.size() == 1 ? "" : "s",
                        fmt::join(ranks, ", "), ranks.size() == 1 ? "waits" : "wait", where);
  }
  return text;
}

}  // namespace

std::string describe_hang(const StatusBoard& board, int64_t now_ns, double limit_seconds) {
  const std::vector<const RankStatus*> blamed = culprits(board, now_ns, limit_seconds);
  std::string text = fmt::format("no progress for {:.3g} s:", limit_seconds);
  for (const RankStatus* row : blamed) {
    text += fmt::format(" rank {} stands still in {} since {:.1f} s{};", row->rank.load(kRelaxed),
                        place_of(*row), seconds_since(*row, now_ns),
                        waits_in(*row) == CommKind::none ? "" : ", in " + wait_text(*row));
    if (process_stopped(*row, now_ns, limit_seconds)) {
      text.insert(text.size() - 1, ", its process is stopped");
    }
  }
  if (blamed.empty()) text += " every rank of this machine waits for another one;";
  text += others_wait(board, blamed);
  text.pop_back();
  return text;
}

std::string describe_loss(const StatusBoard& board) {
  std::vector<const RankStatus*> lost;
  std::string text;
  for (int r = 0; r < board.count; ++r) {
    const RankStatus& row = board.rows[r];
    if (row.rank.load(kRelaxed) < 0 || section_of(row) == Section::done) continue;
    if (!process_ended(row)) continue;
    lost.push_back(&row);
    text += fmt::format(" rank {} has ended in {} without a word (process {} on {});",
                        row.rank.load(kRelaxed), place_of(row), row.process.load(kRelaxed),
                        host_name());
  }
  if (lost.empty()) return "";
  text += others_wait(board, lost);
  text.pop_back();
  return text.substr(1);
}

HangDetector::HangDetector(const WatchdogOptions& options, int64_t now_ns)
    : options_(options),
      period_(static_cast<int64_t>(std::clamp(options.timeout / 8, 0.01, 0.5) * 1e9)),
      last_look_ns_(now_ns) {}

double HangDetector::limit_seconds(const RankStatus& row) const {
  const auto section = static_cast<size_t>(section_of(row));
  return options_.timeout * (section < options_.factor.size() ? options_.factor[section] : 1.0);
}

std::optional<double> HangDetector::look(const RankStatus& row, int64_t now_ns) {
  const int64_t since_look = std::min(now_ns - last_look_ns_, 2 * period_.count());
  const int64_t since_beat = std::max<int64_t>(now_ns - row.beat_ns.load(kRelaxed), 0);
  silent_ns_ = std::min(silent_ns_ + since_look, since_beat);
  last_look_ns_ = now_ns;
  const double silent = static_cast<double>(silent_ns_) * 1e-9;
  if (section_of(row) == Section::done || silent <= limit_seconds(row)) return std::nullopt;
  return silent;
}

Watchdog::Watchdog(Comm& world, WatchdogOptions options)
    : world_(world),
      options_(std::move(options)),
      parent_(std::string_view(world.transport()) == "mpi" ? getppid() : 0) {
  beat();
  if (options_.timeout <= 0) return;
  world_.monitor().alive();
  thread_ = start_thread<std::jthread>(fmt::format("the watchdog of rank {}", world_.rank()),
                                       [this](const std::stop_token& stop) { watch(stop); });
}

Watchdog::~Watchdog() = default;

void Watchdog::watch(const std::stop_token& stop) {
  HangDetector detector(options_, monotonic_ns());
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, stop, detector.period(), [&] { return stop.stop_requested(); })) {
    world_.monitor().alive();
    if (parent_ != 0 && getppid() != parent_) {
      world_.abort(static_cast<int>(ExitCode::peer_lost),
                   fmt::format("rank {}: the launcher has ended", world_.rank()));
    }
    if (const std::string loss = describe_loss(world_.monitor().board()); !loss.empty()) {
      world_.abort(static_cast<int>(ExitCode::peer_lost),
                   fmt::format("{}\n  fix: resume from the last checkpoint; the launcher or the "
                               "system's log says why it ended (killed, out of memory, crashed)",
                               loss));
    }
    const RankStatus& row = std::as_const(world_.monitor()).status();
    if (const auto silent = detector.look(row, monotonic_ns())) end_job(*silent);
  }
}

void Watchdog::end_job(double silent_seconds) {
  const FlightRecorder& recorder = world_.monitor().recorder();
  if (!options_.dump_dir.empty()) {
    const std::string path =
        fmt::format("{}/flight-rank{}.txt", options_.dump_dir, world_.monitor().rank());
    if (std::FILE* file = std::fopen(path.c_str(), "w")) {
      const std::string text = recorder.text(FlightRecorder::kEntries);
      std::fwrite(text.data(), 1, text.size(), file);
      std::fclose(file);
    }
  }
  const std::string text = describe_hang(world_.monitor().board(), monotonic_ns(), silent_seconds);
  world_.abort(
      static_cast<int>(ExitCode::peer_lost),
      fmt::format("{}\n  last calls of rank {}:\n{}  fix: resume from the last checkpoint; "
                  "a longer train.watchdog helps if the rank was only slow",
                  text, world_.monitor().rank(), recorder.text(kShownEntries)));
  // Unreachable, but g++ does not see that abort() never returns.
  std::_Exit(static_cast<int>(ExitCode::peer_lost));
}

}  // namespace stretto
