// A model as Hugging Face transformers write it: a copy of tests/goldens/hf/FAMILY, to be changed.
#pragma once

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "hf/exchange.h"
#include "support/temp_dir.h"

namespace stretto::test {

inline std::string golden_dir(const std::string& family) {
  return STRETTO_SOURCE_DIR "/tests/goldens/hf/" + family;
}

class Theirs {
 public:
  explicit Theirs(const std::string& family, const std::string& config = "config-5.23.0") {
    std::filesystem::create_directory(dir / "hf");
    for (const auto& [from, to] :
         {std::pair(config + ".json", "config.json"), std::pair(std::string(kWeights), kWeights)}) {
      dir.write("hf/" + std::string(to), content_of(golden_dir(family) + "/" + from));
    }
  }

  // `key` as a JSON pointer: "/n_layer".
  void set(const std::string& key, const nlohmann::json& value) const {
    nlohmann::json config = nlohmann::json::parse(content_of(dir / "hf/config.json"));
    config[nlohmann::json::json_pointer(key)] = value;
    dir.write("hf/config.json", config.dump());
  }
  void add(const std::string& tensor, const std::vector<int64_t>& shape,
           const std::vector<float>& values) const {
    const std::string path = std::string("hf/") + kWeights, file = content_of(dir / path);
    uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    nlohmann::json header = nlohmann::json::parse(file.substr(sizeof length, length));
    const std::string data = file.substr(sizeof length + length);
    const size_t bytes = values.size() * sizeof(float);
    header[tensor] = {
        {"dtype", "F32"}, {"shape", shape}, {"data_offsets", {data.size(), data.size() + bytes}}};
    const std::string text = header.dump();
    length = text.size();
    dir.write(path, std::string(reinterpret_cast<const char*>(&length), sizeof length) + text +
                        data + std::string(reinterpret_cast<const char*>(values.data()), bytes));
  }
  // A tensor of ones.
  void add(const std::string& tensor, const std::vector<int64_t>& shape) const {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    add(tensor, shape, std::vector<float>(static_cast<size_t>(count), 1.0f));
  }
  ExchangeResult import() const { return import_hf(posix_fs(), dir / "hf", dir / "run"); }
  bool wrote_nothing() const { return !std::filesystem::exists(dir / "run"); }

  static constexpr const char* kWeights = "model.safetensors";
  TempDir dir{Where::memory};
};

}  // namespace stretto::test
