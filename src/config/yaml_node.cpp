// The parts of the strict YAML layer that do not need yaml-cpp: places, nodes, file reading.
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/units.h"
#include "base/utf8.h"
#include "config/yaml.h"

namespace stretto {

std::string Place::line_text() const {
  switch (source) {
    case Source::default_value:
      return "default";
    case Source::command_line:
      return "command line";
    case Source::file:
      return line > 0 ? fmt::format("{}:{}", file, line) : file;
    case Source::derived:
    case Source::registry:
      return file;
  }
  return file;
}

std::string Place::text() const {
  return source == Source::file && line > 0 ? fmt::format("{}:{}:{}", file, line, column)
                                            : line_text();
}

const YamlNode* YamlNode::find(std::string_view key) const {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].name == key) return &items[i];
  }
  return nullptr;
}

YamlNode* YamlNode::find(std::string_view key) {
  return const_cast<YamlNode*>(static_cast<const YamlNode*>(this)->find(key));
}

void YamlNode::set(std::string_view key, YamlNode value) {
  if (YamlNode* old = find(key)) {
    *old = std::move(value);
    return;
  }
  keys.push_back({std::string(key), value.place});
  items.push_back(std::move(value));
}

YamlNode yaml_scalar(std::string text, Place place) {
  YamlNode node;
  node.kind = YamlNode::Kind::scalar;
  node.text = std::move(text);
  node.place = std::move(place);
  return node;
}

void require_text(std::string_view text, const std::string& name) {
  int line = 1;
  size_t line_start = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t length = decode_utf8(text.substr(i)).bytes;
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool control =
        (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F;
    if (length == 0 || control) {
      throw Error(
          ExitCode::bad_config,
          fmt::format("{}:{}:{}  byte 0x{:02x} is {}", printable(name), line, i - line_start + 1,
                      byte, control ? "a control character" : "not UTF-8 text"),
          control ? "remove it" : "give text in UTF-8");
    }
    if (byte == '\n') {
      ++line;
      line_start = i + 1;
    }
    i += length;
  }
}

YamlNode read_yaml_file(const std::string& path) {
  const std::string name = printable(path);
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    throw Error(errno == EACCES ? ExitCode::no_permission : ExitCode::no_input,
                fmt::format("cannot read {}: {}", name, std::strerror(errno)),
                "check the path; `stretto models` lists the names that need no file");
  }
  if (S_ISDIR(info.st_mode)) {
    const bool run = ::stat((path + "/checkpoints").c_str(), &info) == 0;
    throw Error(
        ExitCode::bad_config, fmt::format("{} is a directory, not a YAML file", name),
        run ? fmt::format("to continue a run, repeat its configuration with output={}", name)
            : "name a file in it");
  }
  if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode)) {
    throw Error(ExitCode::bad_config, fmt::format("{} is not a file", name), "name a YAML file");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw Error(ExitCode::no_permission, fmt::format("cannot open {}", name),
                "check the permissions");
  }
  std::string text;
  char block[4096];
  errno = 0;
  while (file.read(block, sizeof block), file.gcount() > 0) {
    text.append(block, static_cast<size_t>(file.gcount()));
    if (text.size() > kMaxYamlBytes) {
      throw Error(ExitCode::bad_config,
                  fmt::format("{} is larger than {}", name, format_bytes(kMaxYamlBytes)),
                  "a configuration is a small text file; data belongs in data.path");
    }
  }
  // Otherwise an incomplete text would pass for the whole file.
  if (file.bad()) throw fs_error(errno != 0 ? errno : EIO, "read", name);
  return parse_yaml(text, name);
}

}  // namespace stretto
