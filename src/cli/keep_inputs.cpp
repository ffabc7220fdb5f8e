#include "cli/keep_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"

namespace stretto::cli {
namespace {

namespace fs = std::filesystem;

bool replaces(const std::string& output, const std::string& input) {
  std::error_code none;
  if (fs::equivalent(input, output, none)) return true;
  const bool record = output.ends_with(".json") || output.ends_with(".csv");
  if (!record || !fs::is_directory(input, none) || !fs::exists(output, none)) return false;
  const fs::path directory = fs::canonical(input, none), file = fs::canonical(output, none);
  const auto parted = std::mismatch(directory.begin(), directory.end(), file.begin(), file.end());
  return parted.first == directory.end();
}

}  // namespace

void keep_inputs(const std::string& option, const std::string& value,
                 const std::vector<std::string>& outputs, const std::vector<std::string>& inputs) {
  for (const std::string& output : outputs) {
    for (const std::string& input : inputs) {
      if (!replaces(output, input)) continue;
      throw Error(ExitCode::usage,
                  fmt::format("{} {} would overwrite {}, which is an input", option,
                              printable(value), printable(output)),
                  fmt::format("choose another name with {}", option));
    }
  }
}

}  // namespace stretto::cli
