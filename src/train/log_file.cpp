#include "train/log_file.h"

#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"

namespace stretto {
namespace {

constexpr size_t kMaxWaitingBytes = 16 << 20;  // thousands of steps

}  // namespace

LogFile::LogFile(Fs& fs, std::string path, std::string beginning)
    : fs_(fs), path_(std::move(path)), beginning_(std::move(beginning)) {
  try {
    open();
  } catch (const FsError& error) {
    throw Error(ExitCode::cannot_create,
                fmt::format("cannot create {}: {}", path_, std::strerror(error.error_number())),
                "set output= to a directory that you may write to, or leave it out");
  }
  if (!waiting_.empty()) flush(false);
}

LogFile::~LogFile() {
  try {
    if (records_ > 0) flush(false);  // there may be room again
  } catch (...) {  // flush() takes note of errors; nothing else may leave a destructor
  }
  if (records_ + lost_ == 0) return;
  spdlog::warn("{}: {} could not be written", path_, counted(records_ + lost_, "record"));
}

void LogFile::write(std::string_view record) {
  if (waiting_.size() + record.size() < kMaxWaitingBytes) {
    waiting_ += record;
    ++records_;
  } else {
    ++lost_;
  }
  flush(false);
}

void LogFile::sync() {
  flush(true);
  try {
    if (fs_.info(path_)) return;
    open();
    spdlog::warn("{} has disappeared with what was in it; it begins anew", path_);
  } catch (const Error& error) {
    spdlog::warn("{} has disappeared and cannot be created again: {}", path_, error.what());
  }
  if (!waiting_.empty()) flush(true);
}

void LogFile::open() {
  make_dirs(fs_, parent_dir(path_));
  file_ = fs_.open_append(path_);
  bytes_ = file_->appended();
  begun_ = 0;
  if (bytes_ == 0) waiting_.insert(0, beginning_);
}

void LogFile::flush(bool durable) {
  try {
    file_->write_at(waiting_.data() + begun_, waiting_.size() - begun_, bytes_);
    bytes_ += static_cast<int64_t>(waiting_.size() - begun_);
    waiting_.clear();
    begun_ = 0;
    records_ = 0;
    if (durable) file_->sync();
    if (failing_) spdlog::info("{} is written again", path_);
    failing_ = false;
  } catch (const Error& error) {
    take_note(error);
  }
}

void LogFile::take_note(const Error& error) {
  if (!failing_)
    spdlog::warn("{}; records are kept in memory until they can be written", error.what());
  failing_ = true;
  try {
    // The failed write may have ended inside a record: the next one goes on from there.
    const int64_t written = file_->size() - bytes_;
    if (written <= 0 || written > static_cast<int64_t>(waiting_.size() - begun_)) return;
    begun_ += static_cast<size_t>(written);
    bytes_ += written;
  } catch (const Error&) {
    return;  // the size cannot be read either
  }
}

}  // namespace stretto
