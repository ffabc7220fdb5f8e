// A file to which a run appends records. A log must never stop training: records that cannot be
// written are kept in memory, and each further record tries again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/fs.h"

namespace stretto {

class LogFile {
 public:
  // Appends to the file, or creates it and its directory; throws cannot_create if that fails. An
  // empty file begins with `beginning`.
  LogFile(Fs& fs, std::string path, std::string beginning = "");
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  void write(std::string_view record);
  // Makes what was written durable. If the file was removed or renamed, further records go into a
  // new one.
  void sync();

 private:
  void open();
  void flush(bool durable);
  void take_note(const Error& error);  // of a failed write

  Fs& fs_;
  std::string path_, beginning_;
  std::unique_ptr<File> file_;
  int64_t bytes_ = 0;    // bytes in the file
  std::string waiting_;  // whole records; the file ends with the first `begun_` bytes of them
  size_t begun_ = 0;
  int64_t records_ = 0;   // still to be written
  bool failing_ = false;  // the user has been told
  int64_t lost_ = 0;      // records dropped because too many were waiting
};

}  // namespace stretto
