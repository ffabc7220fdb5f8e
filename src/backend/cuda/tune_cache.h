// Remembered measurements: key -> value lines in one small text file per GPU and library version.
// A file that cannot be read or written costs the memory only, never the run.
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
  // Appended to the file at once, unless another rank stored a value since this one looked: then
  // find() gives theirs, so that all ranks, and later runs, choose alike.
  void store(const std::string& key, const std::string& value);
  const std::string& path() const { return path_; }

 private:
  void read();

  std::string path_;
  std::map<std::string, std::string> entries_;
};

}  // namespace stretto::cuda
