// The built program as its users run it: a process with arguments, streams and signals.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/temp_dir.h"

namespace stretto::test {

struct Answer {
  int code = -1;   // exit code
  int signal = 0;  // that ended it
  std::string out, err;

  bool says(std::string_view part) const { return err.find(part) != std::string::npos; }
};

class Program {
 public:
  // `columns`: the width of its lines; 0: as where nothing says one.
  explicit Program(const std::vector<std::string>& words, const std::string& input = "",
                   int columns = 0) {
    scratch_.write("in", input);
    std::vector<char*> argv = {const_cast<char*>(STRETTO_PROGRAM)};
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const std::string in = scratch_ / "in", out = scratch_ / "out", err = scratch_ / "err";
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::setenv("COLUMNS", std::to_string(columns).c_str(), 1);
    const int flags = O_WRONLY | O_CREAT;
    ::dup2(::open(in.c_str(), O_RDONLY), 0);
    ::dup2(::open(out.c_str(), flags, 0600), 1);
    ::dup2(::open(err.c_str(), flags, 0600), 2);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ~Program() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }

  bool ended() const {
    siginfo_t info = {};
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
    return info.si_pid == pid_;
  }

  // Waits until `path` holds `lines` lines; false when the program ended before.
  bool wrote(const std::string& path, int64_t lines) const {
    return becomes(path, [&](const std::string& text) {
      return std::count(text.begin(), text.end(), '\n') >= lines;
    });
  }
  bool wrote(const std::string& path, std::string_view part) const {
    return becomes(path, [&](const std::string& text) { return text.find(part) < text.size(); });
  }

  Answer wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    Answer answer;
    if (WIFEXITED(status)) answer.code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) answer.signal = WTERMSIG(status);
    answer.out = content_of(scratch_ / "out");
    answer.err = content_of(scratch_ / "err");
    return answer;
  }

 private:
  bool becomes(const std::string& path,
               const std::function<bool(const std::string&)>& as_wanted) const {
    while (true) {
      const bool last = ended();  // what it wrote before it ended counts
      if (as_wanted(content_of(path))) return true;
      if (last) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  TempDir scratch_{Where::memory};
  pid_t pid_ = -1;
};

inline Answer stretto_run(const std::vector<std::string>& words, const std::string& input = "",
                          int columns = 0) {
  return Program(words, input, columns).wait();
}

// Refused with this exit code, in words that name `part` and a way out.
inline void expect_refused(const std::vector<std::string>& words, int code, std::string_view part,
                           const std::string& input = "") {
  const Answer answer = stretto_run(words, input);
  std::string command;
  for (const std::string& word : words) command += " " + word;
  EXPECT_EQ(answer.code, code) << command << "\n" << answer.err;
  EXPECT_TRUE(answer.says(part)) << command << "\n" << answer.err;
  EXPECT_TRUE(answer.says("  fix: ")) << command << "\n" << answer.err;
}

}  // namespace stretto::test
