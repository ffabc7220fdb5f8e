// The weights in a Hugging Face directory.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/fs.h"
#include "checkpoint/safetensors.h"
#include "hf/family.h"

namespace stretto {

// All tensors of a directory by name, in one file or in several with an index. Errors are bad_data.
class HfSource {
 public:
  // Names are compared without `prefix`, which some writers leave out.
  HfSource(Fs& fs, std::string directory, std::string prefix);

  const std::string& directory() const { return directory_; }
  size_t files() const { return files_.size(); }
  size_t tensors() const { return tensors_.size(); }
  bool has(const std::string& name) const { return tensors_.count(plain(name)) > 0; }
  // Throws unless the tensor is there, with a usable type and the shape that config.json promises.
  void require(const HfTensor& wanted) const { find(wanted); }
  // As stored. Refuses NaN and infinities.
  std::vector<float> read(const HfTensor& wanted) const;
  // Names of tensors, as stored, that are not among `known`.
  std::vector<std::string> others(const std::vector<std::string>& known) const;

 private:
  struct File {
    std::unique_ptr<MappedFile> mapping;
    Safetensors content;
  };
  using Place = std::pair<const MappedFile*, const StTensor*>;

  std::vector<std::string> indexed_files(Fs& fs, const std::string& index) const;
  void refuse_others(Fs& fs, const std::vector<std::string>& names) const;
  void add(Fs& fs, const std::string& name);
  const Place& find(const HfTensor& wanted) const;
  std::string plain(const std::string& name) const;

  std::string directory_, prefix_;
  std::vector<std::unique_ptr<File>> files_;
  std::map<std::string, Place> tensors_;
};

}  // namespace stretto
