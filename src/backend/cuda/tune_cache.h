// Remembered measurements: key -> value lines in one small text file per GPU and library version.
// A file that cannot be read or written costs the memory only, never the run: a warning says once
// that runs may choose differently.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace stretto::cuda {

class TuneCache {
 public:
  // An empty path: <user cache folder>/stretto/<name>.txt.
  TuneCache(std::string path, const std::string& name);

  std::optional<std::string> find(const std::string& key) const;
  // What counts from now on: `value`, appended to the file at once, or what another rank stored
  // first, so that all ranks, and later runs, choose alike. A value that was looked at and found
  // useless (`refused`) gives way.
  std::string settle(const std::string& key, const std::string& value,
                     const std::optional<std::string>& refused = std::nullopt);
  // Throws Error(io_error), as replace() would; makes the file.
  void require_writable() const;
  void replace(const std::string& key, const std::string& value);  // whatever is there
  const std::string& path() const { return path_; }

 private:
  void read();

  std::string path_;
  std::map<std::string, std::string> entries_;
};

}  // namespace stretto::cuda
