// A command as a shell runs it, and what it prints.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace stretto::test {

struct ShellAnswer {
  int code = -1;
  std::string out;  // stdout; add 2>&1 for both streams
};

inline ShellAnswer shell(const std::string& command) {
  ShellAnswer answer;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return answer;
  char bytes[4096];
  for (size_t n; (n = std::fread(bytes, 1, sizeof bytes, pipe)) > 0;) answer.out.append(bytes, n);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) answer.code = WEXITSTATUS(status);
  return answer;
}

inline bool has_command(const std::string& name) { return shell("command -v " + name).code == 0; }

}  // namespace stretto::test
