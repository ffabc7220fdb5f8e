// A file that a run adds records to. A log must never stop training: what cannot be written waits
// in memory, and each further record tries again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/fs.h"

namespace stretto {

class LogFile {
 public:
  // Goes on with the file, or makes it and its directory; throws cannot_create if that fails. An
  // empty file begins with `beginning`.
  LogFile(Fs& fs, std::string path, std::string beginning = "");
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  void write(std::string_view record);
  // Makes what was written durable. Where the file has lost its name, further records go into a new
  // one.
  void sync();

 private:
  void open();
  void flush(bool durable);
  void take_note(const Error& error);  // of a failed write

  Fs& fs_;
  std::string path_, beginning_;
  std::unique_ptr<File> file_;
  int64_t bytes_ = 0;    // of the file
  std::string waiting_;  // whole records; the file ends with the first `begun_` bytes of them
  size_t begun_ = 0;
  int64_t records_ = 0;   // that wait
  bool failing_ = false;  // the user was told
  int64_t lost_ = 0;      // records for which there was no room in memory
};

}  // namespace stretto
