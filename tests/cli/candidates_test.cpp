// What completion offers, as the shells' scripts hear it.
#include <algorithm>
#include <sstream>

#include "config/schema.h"
#include "support/run_verb.h"

namespace stretto {
namespace {

struct Offered {
  std::string files;               // "words", "files" or "directories"
  std::vector<std::string> words;  // without what is said about them
  std::string text;

  bool has(const std::string& word) const {
    return std::find(words.begin(), words.end(), word) != words.end();
  }
};

using Words = std::vector<std::string>;

Offered offered(Words words) {
  words.insert(words.begin(), "__complete");
  const VerbAnswer answer = run_verb(words);
  EXPECT_EQ(answer.code, 0);
  EXPECT_EQ(answer.err, "");
  Offered offered;
  offered.text = answer.out;
  std::istringstream lines(answer.out);
  std::getline(lines, offered.files);
  for (std::string line; std::getline(lines, line);) {
    offered.words.push_back(line.substr(0, line.find('\t')));
  }
  return offered;
}

TEST(Candidates, VerbsAreThoseOfTheHelp) {
  const Offered all = offered({""});
  EXPECT_EQ(all.files, "words");
  EXPECT_TRUE(all.has("train") && all.has("plan") && all.has("version"));
  EXPECT_FALSE(all.has("__complete"));
  EXPECT_NE(all.text.find("train\tTrains a GPT\n"), std::string::npos);
  const std::string help = run_verb({"--help"}).out;
  for (const std::string& verb : all.words) {
    EXPECT_NE(help.find("\n  " + verb + " "), std::string::npos) << verb;
  }
  EXPECT_EQ(offered({"tr"}).words, Words{"train"});
  EXPECT_EQ(offered({}).words, all.words);
}

TEST(Candidates, VerbsBelowOthers) {
  EXPECT_EQ(offered({"config", ""}).words, (Words{"keys", "show", "check", "schema"}));
  EXPECT_EQ(offered({"config", "-q", "sh"}).words, Words{"show"});
  // plan takes a model, too, and no verb behind it.
  const Offered plan = offered({"plan", ""});
  EXPECT_TRUE(plan.has("exam") && plan.has("mpt-7b"));
  EXPECT_FALSE(offered({"plan", "mpt-7b", "--gpus", "8", ""}).has("exam"));
}

TEST(Candidates, OptionsOfTheVerbAndOfAnyVerb) {
  EXPECT_EQ(offered({"bench", "tiny", "--s"}).words, (Words{"--steps", "--seconds"}));
  EXPECT_EQ(offered({"bench", "--q"}).words, Words{"--quiet"});
  EXPECT_EQ(
      offered({"plan", "exam", "--"}).words,
      (Words{"--dir", "--table", "--write", "--rows", "--fits", "--help", "--quiet", "--verbose"}));
  EXPECT_TRUE(offered({"--ver"}).has("--version"));
  EXPECT_FALSE(offered({"train", "--ver"}).has("--version"));
  // Nothing else can follow.
  EXPECT_TRUE(offered({"doctor", ""}).has("--quick"));
}

TEST(Candidates, ValuesOfOptions) {
  EXPECT_EQ(offered({"sweep", "--launcher", ""}).words,
            (Words{"threads", "mpirun", "slurm", "srun"}));
  EXPECT_EQ(offered({"sweep", "--launcher=s"}).words,
            (Words{"--launcher=slurm", "--launcher=srun"}));
  EXPECT_EQ(offered({"eval", "--device", "c"}).words, (Words{"cpu", "cuda"}));
  const Offered cluster = offered({"plan", "tiny", "--cluster", "h"});
  EXPECT_EQ(cluster.words, (Words{"h100", "h200"}));
  EXPECT_EQ(cluster.files, "files");
  EXPECT_EQ(offered({"sweep", "-m", "tiny", "tiny-1"}).words,
            (Words{"tiny-100k", "tiny-1m", "tiny-10m"}));
  const Offered number = offered({"train", "-n", ""});
  EXPECT_EQ(number.files, "words");
  EXPECT_EQ(number.words, Words{});
  EXPECT_TRUE(offered({"train", "-n", "4", ""}).has("tiny"));
  EXPECT_TRUE(offered({"train", "-n4", ""}).has("tiny"));
  EXPECT_EQ(offered({"doctor", "--disk", ""}).files, "directories");
  EXPECT_EQ(offered({"collect", "runs", "--style", "f"}).words, (Words{"fugaku", "full"}));
}

TEST(Candidates, FilesWhereFilesAreMeant) {
  EXPECT_EQ(offered({"report", "r"}).files, "files");
  EXPECT_EQ(offered({"generate", "r"}).files, "directories");
  EXPECT_EQ(offered({"eval", "run", "f"}).files, "files");
  EXPECT_EQ(offered({"eval", "run", "file", ""}).files, "words");
}

TEST(Candidates, ModelsAndKeysOfAConfiguration) {
  const Offered first = offered({"train", ""});
  EXPECT_EQ(first.files, "files");
  EXPECT_TRUE(first.has("mpt-7b") && first.has("seq_len=") && first.has("train.") &&
              first.has("model="));
  EXPECT_FALSE(first.has("train.lr="));  // one level at a time
  EXPECT_FALSE(offered({"train", "tiny", ""}).has("mpt-7b"));
  EXPECT_TRUE(offered({"train", "seq_len=64", ""}).has("mpt-7b"));
  EXPECT_EQ(offered({"train", "tiny", "train.l"}).words, (Words{"train.lr=", "train.loss_scale."}));
  EXPECT_EQ(offered({"models", "gpt2-1"}).words, (Words{"gpt2-124m", "gpt2-1558m"}));
  EXPECT_TRUE(offered({"compare", "a", "b", "--bench", ""}).has("tiny"));
}

TEST(Candidates, ValuesOfKeys) {
  EXPECT_EQ(offered({"train", "tiny", "train.schedule=c"}).words,
            (Words{"train.schedule=constant", "train.schedule=cosine"}));
  EXPECT_EQ(offered({"train", "tf32="}).words, (Words{"tf32=true", "tf32=false"}));
  EXPECT_EQ(offered({"train", "micro_batch="}).words, Words{"micro_batch=auto"});
  EXPECT_EQ(offered({"train", "model=gpt2-3"}).words, Words{"model=gpt2-355m"});
  EXPECT_EQ(offered({"train", "data.path="}).files, "files");
  EXPECT_EQ(offered({"train", "train.lr="}).files, "words");
  EXPECT_EQ(offered({"train", "no.key="}).text, "words\n");
  EXPECT_EQ(offered({"compare", "--bench=precision=b"}).words, Words{"--bench=precision=bf16"});
}

// Key by key, so that no new one is left out: every key can be written by completion alone.
TEST(Candidates, EveryKeyIsReached) {
  for (const Key& key : config_keys()) {
    for (size_t dot = key.name.find('.'); dot != std::string::npos;
         dot = key.name.find('.', dot + 1)) {
      EXPECT_TRUE(offered({"train", key.name.substr(0, dot)}).has(key.name.substr(0, dot + 1)));
    }
    EXPECT_TRUE(offered({"train", key.name}).has(key.name + "=")) << key.name;
  }
}

TEST(Candidates, NothingIsAnOptionBehindTwoDashes) {
  EXPECT_EQ(offered({"report", "--", "--o"}).words, Words{});
  EXPECT_EQ(offered({"report", "--", ""}).files, "files");
  EXPECT_EQ(offered({"--", "tr"}).words, Words{});
}

TEST(Candidates, WordsThatAreWrongAreNoError) {
  for (const Words& words :
       {Words{"trian", ""}, Words{"train", "--no-such", ""}, Words{"-", "-", ""},
        Words{"train", "=", "="}, Words{"models", "\xff", "\n"}}) {
    EXPECT_NE(offered(words).files, "");
  }
}

TEST(Candidates, TheScriptsOfThreeShells) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const VerbAnswer answer = run_verb({"completion", shell});
    EXPECT_EQ(answer.code, 0);
    EXPECT_NE(answer.out.find("__complete"), std::string::npos) << shell;
  }
  const VerbAnswer other = run_verb({"completion", "fsh"});
  EXPECT_EQ(other.code, 64);
  EXPECT_NE(other.err.find("'fish'"), std::string::npos) << other.err;
}

}  // namespace
}  // namespace stretto
