// An event file, as TensorBoard reads it: scalars by tag and step, in records of TensorFlow's kind
// (length, its checksum, an Event in protobuf's encoding, its checksum).
//
// Each start of a run writes a file of its own. Its first record says at which step the run goes
// on, and what older files hold of that step and later ones does not count any more.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "train/log_file.h"

namespace stretto {

struct Scalar {
  std::string_view tag;
  double value = 0;
};

class EventFile {
 public:
  // In `directory`, which it creates; throws cannot_create if that fails. Empty: writes nothing.
  // `step`: the last one that the run goes on from.
  EventFile(Fs& fs, const std::string& directory, int64_t step);

  void write(int64_t step, std::span<const Scalar> scalars);
  void sync();  // as LogFile's

 private:
  std::optional<LogFile> file_;
};

}  // namespace stretto
