#include "checkpoint/store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>

#include "base/log.h"
#include "base/random.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"

namespace stretto {
namespace {

constexpr std::string_view kTempMark = ".tmp-";
constexpr int64_t kMaxRecordBytes = int64_t{1} << 30;

std::string part_name(int part) { return fmt::format("shard-{:05d}.safetensors", part); }
std::string record_name(int part) { return fmt::format("shard-{:05d}.record", part); }

void write_new_file(Fs& fs, const std::string& path, std::string_view content) {
  const auto file = fs.create(path);
  file->append(content);
  file->sync();
  file->close();
}

// Like make_dirs, and makes every new name durable.
void make_durable_dirs(Fs& fs, const std::string& path) {
  std::vector<std::string> parents;
  for (std::string at = path; !fs.info(at); at = parent_dir(at)) parents.push_back(parent_dir(at));
  make_dirs(fs, path);
  for (const std::string& parent : parents) fs.sync_dir(parent);
}

}  // namespace

uint64_t fresh_nonce() {
  const auto time = std::chrono::system_clock::now().time_since_epoch().count();
  return CounterRng(static_cast<uint64_t>(time), static_cast<uint64_t>(::getpid())).bits(0);
}

std::string step_name(int64_t step) { return fmt::format("step-{}", step); }

std::optional<int64_t> step_of_name(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  if (name.substr(0, kPrefix.size()) != kPrefix) return std::nullopt;
  int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (error != std::errc() || stop != end || step < 0 || step_name(step) != name) {
    return std::nullopt;
  }
  return step;
}

std::string CheckpointStore::path_of(int64_t step) const {
  return join_path(root_, step_name(step));
}

std::string CheckpointStore::temp_path(int64_t step, uint64_t nonce) const {
  return fmt::format("{}{}{:016x}", path_of(step), kTempMark, nonce);
}

std::vector<int64_t> CheckpointStore::steps() const {
  std::vector<int64_t> steps;
  if (!fs_.info(root_)) return steps;
  for (const std::string& name : fs_.list(root_)) {
    if (const auto step = step_of_name(name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string CheckpointStore::begin(int64_t step, uint64_t nonce, int64_t bytes) {
  make_durable_dirs(fs_, root_);
  const int64_t need = bytes + bytes / 20, free = fs_.free_space(root_);
  if (free < need) {
    throw FsError(ExitCode::io_error,
                  fmt::format("a checkpoint needs {} in {}, {} are free",
                              format_bytes(static_cast<double>(need)), root_,
                              format_bytes(static_cast<double>(free))),
                  "free some space, or keep fewer checkpoints (checkpoint.keep)", ENOSPC);
  }
  const std::string temp = temp_path(step, nonce);
  fs_.make_dir(temp);
  return temp;
}

WriteTimes CheckpointStore::write_part(const std::string& temp, int part, const Shard& shard,
                                       int64_t step) {
  WriteTimes times;
  const FileRecord record =
      write_shard(fs_, join_path(temp, part_name(part)), shard, step, times, moved_);
  write_new_file(fs_, join_path(temp, record_name(part)), file_record_text(record));
  fs_.sync_dir(temp);
  return times;
}

void CheckpointStore::commit(const std::string& temp, int parts, Manifest manifest) {
  manifest.files.clear();
  for (int part = 0; part < parts; ++part) {
    const std::string path = join_path(temp, record_name(part));
    FileRecord record = parse_file_record(read_file(fs_, path, kMaxRecordBytes), path);
    if (!record.tensors.empty()) {
      manifest.files.push_back(std::move(record));
    } else {
      fs_.remove(join_path(temp, record.name));  // of a rank that had nothing to write
    }
    fs_.remove(path);
    moved_();
  }
  write_new_file(fs_, join_path(temp, kManifestName), manifest_text(manifest));
  fs_.sync_dir(temp);

  const std::string final_path = path_of(manifest.step), old = temp + "-old";
  const bool replaces = fs_.info(final_path).has_value();
  // A run that resumed from that checkpoint does not write it again, so it must have been damaged.
  if (replaces) fs_.rename(final_path, old);
  fs_.rename(temp, final_path);
  fs_.sync_dir(root_);
  if (replaces) drop(old);
}

void CheckpointStore::drop(const std::string& temp) noexcept {
  try {
    remove_tree(fs_, temp);
  } catch (const std::exception& error) {
    spdlog::warn("left behind: {} ({})", temp, error.what());
  }
}

void CheckpointStore::drop_leftovers() noexcept {
  try {
    if (!fs_.info(root_)) return;
    for (const std::string& name : fs_.list(root_)) {
      const size_t mark = name.find(kTempMark);
      if (mark != std::string::npos && step_of_name(name.substr(0, mark))) {
        drop(join_path(root_, name));
      }
    }
  } catch (const std::exception& error) {
    spdlog::warn("cannot look for unfinished checkpoints: {}", error.what());
  }
}

void CheckpointStore::prune(int64_t step, int64_t keep, int64_t keep_every) {
  std::vector<int64_t> old = steps();
  // Later checkpoints are of a future that this run has not reached again, so they do not count.
  old.erase(std::lower_bound(old.begin(), old.end(), step), old.end());
  const auto kept = static_cast<size_t>(std::max<int64_t>(0, keep - 1));
  old.resize(old.size() - std::min(kept, old.size()));
  if (keep_every > 0) std::erase_if(old, [&](int64_t s) { return s % keep_every == 0; });
  if (old.empty()) return;
  Checkpoint::open(fs_, path_of(step)).verify_on_disk(fs_, moved_);
  for (const int64_t s : old) {
    // Renamed first, so that a half-removed directory never looks like a checkpoint.
    const std::string doomed = fmt::format("{}{}old", path_of(s), kTempMark);
    remove_tree(fs_, doomed);  // left by a run that died here
    fs_.rename(path_of(s), doomed);
    fs_.sync_dir(root_);
    remove_tree(fs_, doomed);
    moved_();
  }
}

Checkpoint CheckpointStore::open(int64_t step) const {
  Checkpoint checkpoint = Checkpoint::open(fs_, path_of(step));
  const int64_t held = checkpoint.manifest().step;
  if (held == step) return checkpoint;
  throw Error(ExitCode::bad_data, fmt::format("{}: holds step {}", path_of(step), held),
              fmt::format("rename it to {}, or remove it", step_name(held)));
}

bool may_be_whole(const Error& error) {
  return error.code() == ExitCode::no_permission || error.code() == ExitCode::os_error ||
         error.code() == ExitCode::internal;
}

std::optional<Checkpoint> newest_verified(
    const CheckpointStore& store, const std::function<void(int64_t, const Error&)>& rejected) {
  const std::vector<int64_t> steps = store.steps();
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    try {
      Checkpoint checkpoint = store.open(*step);
      checkpoint.verify();
      return checkpoint;
    } catch (const Error& error) {
      if (may_be_whole(error)) throw;
      if (rejected) rejected(*step, error);
    }
  }
  return std::nullopt;
}

CheckpointStore store_at(Fs& fs, const std::string& path, std::optional<int64_t>& step) {
  const std::string below = join_path(path, "checkpoints");
  const bool run = fs.info(below).has_value();
  CheckpointStore itself(fs, run ? below : path);
  if (!itself.steps().empty()) return itself;
  if (run) {
    throw Error(ExitCode::no_input, fmt::format("{} holds no checkpoint", printable(path)),
                "name a run that has saved one (checkpoint.every), or its step-N");
  }
  const size_t end = path.find_last_not_of('/'), slash = path.find_last_of('/', end);
  const size_t begin = slash == std::string::npos ? 0 : slash + 1;
  step = step_of_name(std::string_view(path).substr(begin, end + 1 - begin));
  if (step && fs.info(path)) return {fs, parent_dir(path)};
  throw Error(ExitCode::no_input, fmt::format("{}: no checkpoint here", path),
              "give a run directory, its checkpoints/ or one step-N in it");
}

std::string run_directory_of(const Checkpoint& checkpoint) {
  const auto whole = std::filesystem::absolute(checkpoint.path()).lexically_normal();
  const auto root = whole.parent_path();
  return root.filename() == "checkpoints" ? root.parent_path().string() : "";
}

Checkpoint checkpoint_at(Fs& fs, const std::string& path) {
  std::optional<int64_t> step;
  const CheckpointStore store = store_at(fs, path, step);
  if (step) {
    Checkpoint checkpoint = Checkpoint::open(fs, store.path_of(*step));
    checkpoint.verify();
    return checkpoint;
  }
  auto newest = newest_verified(store, [](int64_t, const Error& error) {
    spdlog::warn("damaged checkpoint: {}", error.what());
  });
  if (newest) return std::move(*newest);
  throw Error(ExitCode::bad_data, fmt::format("{}: every checkpoint is damaged", store.root()),
              "restore one from a copy");
}

}  // namespace stretto
