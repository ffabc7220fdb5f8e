#include "train/metrics_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"

namespace stretto {

MetricsFile::MetricsFile(const std::string& directory) {
  if (directory.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  path_ = directory + "/metrics.jsonl";
  if (!failed) file_ = std::fopen(path_.c_str(), "a");
  if (file_ == nullptr) {
    throw Error(ExitCode::cannot_create,
                fmt::format("cannot create {}: {}", path_,
                            failed ? failed.message() : std::strerror(errno)),
                "set output= to a directory that you may write to, or leave it out");
  }
}

MetricsFile::~MetricsFile() {
  if (file_ != nullptr) std::fclose(file_);
}

void MetricsFile::write(const std::string& line) {
  if (file_ == nullptr) return;
  const bool written = std::fputs((line + "\n").c_str(), file_) >= 0 && std::fflush(file_) == 0;
  if (written) return;
  spdlog::warn("{}: {}; metrics are no longer written", path_, std::strerror(errno));
  std::fclose(file_);
  file_ = nullptr;
}

}  // namespace stretto
