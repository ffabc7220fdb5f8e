#include "train/metrics_file.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/error.h"
#include "base/log.h"

namespace stretto {
namespace {

constexpr std::string_view kBegin = "{\"step\":";

// The step of a line that json_line() or its neighbours wrote; -1 for any other line.
int64_t step_of(std::string_view line) {
  if (!line.starts_with(kBegin) || !line.ends_with('}')) return -1;
  int64_t step = -1;
  std::from_chars(line.data() + kBegin.size(), line.data() + line.size(), step);
  return step;
}

// Bytes of the file up to the last whole line whose step is at most `step`; lines are in the order
// of their steps. A line that the disk has damaged has no step; the lines after it still count.
std::uintmax_t bytes_up_to(const std::string& path, int64_t step) {
  std::ifstream file(path, std::ios::binary);
  std::uintmax_t bytes = 0, kept = 0;
  std::string line;
  while (std::getline(file, line) && !file.eof()) {  // eof() here: the last line has no newline
    const int64_t its_step = step_of(line);
    if (its_step > step) break;
    bytes += line.size() + 1;
    if (its_step >= 0) kept = bytes;
  }
  return kept;
}

// Whether a line without an end may be the beginning of one of ours.
bool may_become_ours(std::string_view line) {
  return line.starts_with(kBegin) || kBegin.starts_with(line);
}

// Refuses a file that is not a metrics file, because it would be cut and written to.
void require_ours(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::symlink_status(path, ignored);
  if (!std::filesystem::exists(status)) return;
  const bool regular = std::filesystem::is_regular_file(status);
  if (regular) {
    std::string line;
    std::ifstream file(path, std::ios::binary);
    if (!std::getline(file, line)) return;  // empty
    if (file.eof() ? may_become_ours(line) : step_of(line) >= 0) return;
  }
  throw Error(
      ExitCode::cannot_create,
      fmt::format("{}: {}", path,
                  regular ? "contains something other than metrics" : "is not a regular file"),
      "move it away, or set output= to another directory");
}

// Cuts the file with one system call, so that it is complete whenever this process dies.
void cut_after(const std::string& path, int64_t step) {
  std::error_code failed;
  const std::uintmax_t size = std::filesystem::file_size(path, failed);
  if (failed) return;  // there is no file yet: a new run
  const std::uintmax_t kept = bytes_up_to(path, step);
  if (kept == size) return;
  std::filesystem::resize_file(path, kept, failed);
  if (failed) {
    spdlog::warn("{}: steps after {} will be in it twice: {}", path, step, failed.message());
  }
}

}  // namespace

MetricsFile::MetricsFile(Fs& fs, const std::string& directory, int64_t step) {
  if (directory.empty()) return;
  const std::string path = join_path(directory, "metrics.jsonl");
  require_ours(path);
  cut_after(path, step);
  file_.emplace(fs, path);
}

void MetricsFile::write(const std::string& line) {
  if (file_) file_->write(line + "\n");
}

void MetricsFile::sync() {
  if (file_) file_->sync();
}

}  // namespace stretto
