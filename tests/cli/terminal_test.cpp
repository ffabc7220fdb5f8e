// What somebody at a terminal sees of a run.
#include <gtest/gtest.h>
#include <sys/ioctl.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/log.h"
#include "base/wrap.h"
#include "support/program.h"

namespace stretto::test {
namespace {

// The program on a terminal of its own.
class AtTerminal {
 public:
  explicit AtTerminal(const std::vector<std::string>& words, int columns = 80) {
    master_ = ::posix_openpt(O_RDWR | O_NOCTTY);
    if (master_ < 0 || ::grantpt(master_) != 0 || ::unlockpt(master_) != 0) return;
    const winsize size = {24, static_cast<unsigned short>(columns), 0, 0};
    ::ioctl(master_, TIOCSWINSZ, &size);
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
    ::unsetenv("COLUMNS");
    ::setenv("NO_COLOR", "1", 1);
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

  // All that the program printed until it ended, with line ends as it wrote them.
  std::string all() {
    while (shows("\x04\x04 never printed")) {
    }
    std::string out;
    for (const char c : text_) {
      if (c != '\r') out += c;
    }
    return out;
  }

 private:
  int master_ = -1;
  pid_t pid_ = -1;
  std::string text_;
};

constexpr const char* kNoTerminals = "no pseudo-terminal (/dev/ptmx, /dev/pts)";
constexpr const char* kNote = "stopping after the work at hand; Ctrl-C again ends ";

TEST(Terminal, CtrlCIsAnsweredAtOnce) {
  const TempDir dir{Where::memory};
  for (const bool saves : {true, false}) {
    std::vector<std::string> words = {"train", "tiny-100k", "seq_len=16", "threads=1",
                                      "train.steps=100000000"};
    if (saves) words.push_back("output=" + (dir / "run"));
    AtTerminal run(words);
    if (!run.started()) GTEST_SKIP() << kNoTerminals;
    ASSERT_TRUE(run.shows(" 3/100000000")) << run.text();
    run.type('\x03');
    ASSERT_TRUE(run.shows("stopped after step")) << run.text();
    const size_t note = run.text().find(kNote);
    ASSERT_NE(note, std::string::npos) << run.text();
    EXPECT_EQ(run.text().find(kNote, note + 1), std::string::npos) << "once";
    EXPECT_EQ(run.text().find("without saving") != std::string::npos, saves) << run.text();
  }
}

// Bytes that terminals obey.
ptrdiff_t controls(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](unsigned char c) {
    return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
  });
}

// A model after three steps writes any bytes, and so may the writer of a prompt.
TEST(Terminal, NoTextOfAModelSteersIt) {
  if (!AtTerminal({"version"}).started()) GTEST_SKIP() << kNoTerminals;
  const TempDir dir{Where::memory};
  const std::string run = dir / "run";
  ASSERT_EQ(stretto_run({"train", "tiny-100k", "train.steps=3", "threads=1", "output=" + run}).code,
            0);
  const std::string prompt = "gr\u00f6\u00dfe \x1b]0;title\x07 \u202egnp \u009b31m\t\u8a9e";
  const std::vector<std::string> words = {"-q",     "generate", run,  "-n",  "400",
                                          "--seed", "5",        "-p", prompt};
  const std::string piped = stretto_run(words).out;
  EXPECT_TRUE(piped.starts_with(prompt)) << "every byte as it is";
  ASSERT_GT(controls(piped), 10) << "the test has nothing to show";
  const std::string shown = AtTerminal(words).all();
  EXPECT_EQ(controls(shown), 0);
  EXPECT_EQ(shown, printable_lines(piped));
  EXPECT_TRUE(shown.starts_with("gr\u00f6\u00dfe \\x1b]0;title\\x07 \\u202egnp \\x9b31m\t\u8a9e"));
}

// Names of files, and bytes of tokens.
TEST(Terminal, NoOtherTextSteersItEither) {
  if (!AtTerminal({"version"}).started()) GTEST_SKIP() << kNoTerminals;
  const TempDir dir{Where::memory};
  const std::string run = dir / "r\x1b]0;t\x07";
  const std::string text = dir.write("t\x1b[31m.txt", std::string(400, 'a'));
  ASSERT_EQ(stretto_run({"train", "tiny-100k", "seq_len=16", "train.steps=1", "threads=1",
                         "output=" + (dir / "run")})
                .code,
            0);
  std::filesystem::rename(dir / "run", run);
  std::string ids;
  for (int id = 180; id < 230; ++id) ids += std::to_string(id) + " ";
  const std::string tokenizer = STRETTO_SOURCE_DIR "/tests/goldens/tokenizer/gpt2.json";
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"tokenizer", "decode", tokenizer, dir.write("ids", ids)},
           {"eval", run, text},
           {"export", run, "-o", dir / "x\x1b[2J"},
           {"report", run},
           {"config", "show", "tiny", "data.path=" + text},
           {"config", "show", "tiny", "data.path=\u009b31m", "--json"}}) {
    const std::string shown = AtTerminal(words).all();
    EXPECT_EQ(controls(shown), 0) << words[0] << ": " << printable_lines(shown);
    EXPECT_EQ(shown.find("\u009b"), std::string::npos) << words[0];
    EXPECT_NE(shown, "");
  }
  EXPECT_GT(controls(stretto_run({"tokenizer", "decode", tokenizer, dir / "ids"}).out), 10);
}

TEST(Terminal, PagesAndStepsTakeItsWidth) {
  if (!AtTerminal({"version"}).started()) GTEST_SKIP() << kNoTerminals;
  for (const int columns : {60, 120}) {
    std::vector<std::string> pages = {
        AtTerminal({"flops", "mpt-7b", "parallel.pp=8"}, columns).all(),
        AtTerminal({"plan", "--help"}, columns).all()};
    pages.push_back(
        AtTerminal({"train", "tiny-100k", "seq_len=16", "threads=1", "train.steps=12"}, columns)
            .all());
    for (const std::string& page : pages) {
      size_t widest = 0;
      std::istringstream lines(page);
      for (std::string line; std::getline(lines, line);) {
        widest = std::max(widest, width_of(line));
      }
      EXPECT_LE(widest, static_cast<size_t>(columns)) << page;
      EXPECT_GT(widest, static_cast<size_t>(columns) * 2 / 5) << "it is used\n" << page;
    }
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
