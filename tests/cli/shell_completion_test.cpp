// The completion scripts in the shells they are for. zsh and fish are skipped where they are
// missing.
#include <gtest/gtest.h>

#include "support/shell.h"
#include "support/temp_dir.h"

namespace stretto::test {
namespace {

class ShellCompletion : public testing::Test {
 protected:
  ShellCompletion() {
    std::filesystem::create_directory(dir_ / "configs");
    dir_.write("corpus.txt", "");
    dir_.write("a corpus.txt", "");
    std::filesystem::create_symlink(STRETTO_PROGRAM, dir_ / "stretto");
  }

  // What `script` prints in this shell, in a folder with two files and a folder.
  std::string run(const std::string& shell_words, const std::string& script) const {
    dir_.write("script", script);
    const ShellAnswer answer = shell("cd " + dir_.path() + " && PATH=" + dir_.path() + ":$PATH " +
                                     shell_words + " ./script 2>&1");
    EXPECT_EQ(answer.code, 0) << answer.out;
    return answer.out;
  }

  TempDir dir_;
};

class BashCompletion : public ShellCompletion {
 protected:
  // `words`: the line as bash cuts it, at = and : too; the last is being written.
  std::string reply(const std::string& line, const std::string& words) const {
    return run("bash --norc",
               "source <(stretto completion bash)\n"
               "compopt() { echo \"compopt $*\"; }\n"
               "COMP_WORDBREAKS=$' \\t\\n\"\\'><=;|&(:'\n"
               "COMP_LINE='" +
                   line + "' COMP_POINT=" + std::to_string(line.size()) + "\nCOMP_WORDS=(" + words +
                   ") COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
                   "_stretto && printf '%s\\n' \"${COMPREPLY[@]}\" | LC_ALL=C sort");
  }
};

TEST_F(BashCompletion, OffersVerbsOptionsAndValues) {
  EXPECT_EQ(reply("stretto tr", "stretto tr"), "compopt +o default\ntrain\n");
  EXPECT_EQ(reply("stretto config sh", "stretto config sh"), "compopt +o default\nshow\n");
  EXPECT_EQ(reply("./stretto bench --se", "./stretto bench --se"),
            "compopt +o default\n--seconds\n");
}

// bash replaces only what stands behind the last =.
TEST_F(BashCompletion, CutsAtEqualSigns) {
  EXPECT_EQ(
      reply("stretto train  tiny train.schedule=co", "stretto train tiny train.schedule = co"),
      "compopt +o default\nconstant\ncosine\n");
  EXPECT_EQ(reply("stretto train tf32=", "stretto train tf32 ="),
            "compopt +o default\nfalse\ntrue\n");
  EXPECT_EQ(reply("stretto train seq_len=64 train.sc", "stretto train seq_len = 64 train.sc"),
            "compopt -o nospace\ntrain.schedule=\n");
  EXPECT_EQ(reply("stretto sweep --launcher=m", "stretto sweep --launcher = m"),
            "compopt +o default\nmpirun\n");
}

TEST_F(BashCompletion, LeavesFilesToReadlineAndAddsThemToWords) {
  EXPECT_EQ(reply("stretto train tiny data.path=cor", "stretto train tiny data.path = cor"), "\n");
  EXPECT_EQ(reply("stretto generate c", "stretto generate c"),
            "compopt +o default -o dirnames\n\n");
  EXPECT_EQ(reply("stretto train tiny c", "stretto train tiny c"),
            "checkpoint.\nconfigs/\ncorpus.txt\n");
  EXPECT_EQ(reply("stretto train tiny a", "stretto train tiny a"),
            "a\\ corpus.txt\nactivation_checkpointing=\nactivation_offload=\n");
}

TEST_F(BashCompletion, ReadsTheLineUpToTheCursor) {
  const std::string text = run("bash --norc",
                               "source <(stretto completion bash)\ncompopt() { :; }\n"
                               "COMP_LINE='stretto trXX tiny' COMP_POINT=10\n"
                               "COMP_WORDS=(stretto trXX tiny) COMP_CWORD=1\n"
                               "_stretto && printf '%s\\n' \"${COMPREPLY[@]}\" | LC_ALL=C sort");
  EXPECT_EQ(text, "train\n");
}

// A program that is gone or broken: the shell's own completion, and no message.
TEST_F(BashCompletion, IsSilentWithoutTheProgram) {
  EXPECT_EQ(reply("./none train c", "./none train c"), "\n");
}

TEST_F(ShellCompletion, Fish) {
  if (!has_command("fish")) GTEST_SKIP() << "apt-get install fish";
  const auto reply = [&](const std::string& line) {
    return run("fish --no-config",
               "stretto completion fish | source\ncomplete -C '" + line + "'\n");
  };
  EXPECT_EQ(reply("stretto tr"), "train\tTrains a GPT\n");
  EXPECT_EQ(reply("stretto train tiny train.schedule=co"),
            "train.schedule=constant\ntrain.schedule=cosine\n");
  EXPECT_EQ(reply("stretto train tiny data.path=cor"), "data.path=corpus.txt\n");
  EXPECT_EQ(reply("stretto generate c"), "configs/\tDirectory\n");
}

// Completion itself needs a terminal: here the functions that it calls say what they were told.
TEST_F(ShellCompletion, Zsh) {
  if (!has_command("zsh")) GTEST_SKIP() << "apt-get install zsh";
  const auto reply = [&](const std::string& words, const std::string& prefix) {
    return run("zsh -f",
               "compdef() { : }\ncompset() { print compset $* }\n_files() { print files $* }\n"
               "_describe() { print -rl -- ${(P)4} -- ${(P)6} }\n"
               "source <(stretto completion zsh)\n"
               "words=(stretto " +
                   words + ") CURRENT=$#words PREFIX='" + prefix + "'\n_stretto\n");
  };
  EXPECT_EQ(reply("tr", "tr"), "train:Trains a GPT\n--\n");
  EXPECT_EQ(reply("train tf32=", "tf32="), "tf32=true\ntf32=false\n--\n");
  EXPECT_EQ(reply("train data.path=c", "data.path=c"), "--\ncompset -P *=\nfiles\n");
  EXPECT_EQ(reply("train tiny train.l", "train.l"),
            "--\ntrain.lr=:peak learning rate [a number]\ntrain.loss_scale.:4 keys\n"
            "compset -P *=\nfiles\n");
  EXPECT_EQ(reply("generate ''", ""), "--\ncompset -P *=\nfiles -/\n");
}

}  // namespace
}  // namespace stretto::test
