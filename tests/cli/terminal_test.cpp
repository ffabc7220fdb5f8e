// What somebody at a terminal sees of a run.
#include <gtest/gtest.h>
#include <sys/ioctl.h>

#include <cstdlib>

#include "support/program.h"

namespace stretto::test {
namespace {

// The program on a terminal of its own.
class AtTerminal {
 public:
  explicit AtTerminal(const std::vector<std::string>& words) {
    master_ = ::posix_openpt(O_RDWR | O_NOCTTY);
    if (master_ < 0 || ::grantpt(master_) != 0 || ::unlockpt(master_) != 0) return;
    const char* slave = ::ptsname(master_);
    if (slave == nullptr || ::access(slave, R_OK | W_OK) != 0) return;
    std::vector<char*> argv = {const_cast<char*>(STRETTO_PROGRAM)};
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::setsid();
    const int fd = ::open(slave, O_RDWR);
    ::ioctl(fd, TIOCSCTTY, 0);
    for (const int stream : {0, 1, 2}) ::dup2(fd, stream);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ~AtTerminal() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    if (master_ >= 0) ::close(master_);
  }
  AtTerminal(const AtTerminal&) = delete;
  AtTerminal& operator=(const AtTerminal&) = delete;

  bool started() const { return pid_ > 0; }  // false: there are no pseudo-terminals here
  void type(char key) const { EXPECT_EQ(::write(master_, &key, 1), 1); }

  // Reads until `part` is there; false when the program ended without it.
  bool shows(const std::string& part) {
    char bytes[4096];
    while (text_.find(part) == std::string::npos) {
      const ssize_t n = ::read(master_, bytes, sizeof bytes);
      if (n <= 0) return false;
      text_.append(bytes, static_cast<size_t>(n));
    }
    return true;
  }
  const std::string& text() const { return text_; }

 private:
  int master_ = -1;
  pid_t pid_ = -1;
  std::string text_;
};

constexpr const char* kNote = "stopping after the work at hand; Ctrl-C again ends ";

TEST(Terminal, CtrlCIsAnsweredAtOnce) {
  const TempDir dir{Where::memory};
  for (const bool saves : {true, false}) {
    std::vector<std::string> words = {"train", "tiny-100k", "seq_len=16", "threads=1",
                                      "train.steps=100000000"};
    if (saves) words.push_back("output=" + (dir / "run"));
    AtTerminal run(words);
    if (!run.started()) GTEST_SKIP() << "no pseudo-terminal (/dev/ptmx, /dev/pts)";
    ASSERT_TRUE(run.shows(" 3/100000000")) << run.text();
    run.type('\x03');
    ASSERT_TRUE(run.shows("stopped after step")) << run.text();
    const size_t note = run.text().find(kNote);
    ASSERT_NE(note, std::string::npos) << run.text();
    EXPECT_EQ(run.text().find(kNote, note + 1), std::string::npos) << "once";
    EXPECT_EQ(run.text().find("without saving") != std::string::npos, saves) << run.text();
  }
}

TEST(Terminal, LogsHaveNoNoteOfCtrlC) {
  const TempDir dir{Where::memory};
  Program run({"train", "tiny-100k", "seq_len=16", "threads=1", "train.steps=100000000",
               "output=" + (dir / "run")});
  ASSERT_TRUE(run.wrote(dir / "run/metrics.jsonl", 3));
  run.signal(SIGINT);
  const Answer answer = run.wait();
  EXPECT_TRUE(answer.says("stopped after step")) << answer.err;
  EXPECT_FALSE(answer.says("Ctrl-C again")) << answer.err;
}

}  // namespace
}  // namespace stretto::test
