#include "base/error.h"

#include <cstring>

namespace stretto {

Error::Error(ExitCode code, std::string what, std::string hint)
    : std::runtime_error(std::move(what)), code_(code), hint_(std::move(hint)) {}

void contract_broken(const char* condition, const char* file, int line, const std::string& detail) {
  const char* name = std::strstr(file, "src/");
  std::string text = fmt::format("{}:{}: check failed: {}", name ? name : file, line, condition);
  if (!detail.empty()) text += ": " + detail;
  throw Error(ExitCode::internal, text, "this is a bug in Stretto; please report the command");
}

}  // namespace stretto
