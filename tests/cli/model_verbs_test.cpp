// checkpoint, eval, generate, export and import on a model of a few steps, and on damaged ones.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "backend/cuda/cuda_options.h"
#include "support/program.h"

namespace stretto::test {
namespace {

using nlohmann::json;

struct Model {
  TempDir dir{Where::memory};
  std::string text = dir.write("text.txt", repeated("a model of a few steps, byte by byte. ", 60));
  std::string run = dir / "run";

  Model() {
    const Answer answer = stretto_run(
        {"train", "tiny-100k", "data.path=" + text, "train.steps=3", "threads=1", "output=" + run});
    EXPECT_EQ(answer.code, 0) << answer.err;
  }
  static std::string repeated(const std::string& words, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) out += words;
    return out;
  }
  std::string shard() const { return run + "/checkpoints/step-3/shard-00000.safetensors"; }
};

void flip_bit(const std::string& path, std::streamoff at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const auto byte = static_cast<char>(file.get() ^ 1);
  file.seekp(at);
  file.put(byte);
}

TEST(CheckpointVerb, ListsAndVerifies) {
  const Model m;
  const std::string lines = stretto_run({"checkpoint", "list", m.run}).out;
  EXPECT_NE(lines.find("  1 file, "), std::string::npos) << lines;
  const json list = json::parse(stretto_run({"checkpoint", "list", m.run, "--json"}).out);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["step"], 3);
  EXPECT_EQ(list[0]["model"], "tiny-100k");
  const Answer good = stretto_run({"checkpoint", "verify", m.run});
  EXPECT_EQ(good.code, 0);
  EXPECT_NE(good.out.find("verified"), std::string::npos) << good.out;

  flip_bit(m.shard(), static_cast<std::streamoff>(std::filesystem::file_size(m.shard())) - 9);
  for (const std::string& path : {m.run, m.run + "/checkpoints", m.run + "/checkpoints/step-3"}) {
    const Answer bad = stretto_run({"checkpoint", "verify", path});
    EXPECT_EQ(bad.code, 65) << bad.out;
    for (const char* part : {"damaged", "shard-00000", "tensor optimizer.v.", "bytes "}) {
      EXPECT_NE(bad.out.find(part), std::string::npos) << part << "\n" << bad.out;
    }
  }
  expect_refused({"eval", m.run, m.text}, 65, "every checkpoint is damaged");
  expect_refused({"generate", m.run, "-p", "a"}, 65, "every checkpoint is damaged");
  expect_refused({"export", m.run, "-o", m.dir / "x"}, 65, "every checkpoint is damaged");
  EXPECT_FALSE(std::filesystem::exists(m.dir / "x"));
  std::filesystem::resize_file(m.run + "/checkpoints/step-3/manifest.json", 200);
  EXPECT_EQ(stretto_run({"checkpoint", "verify", m.run}).code, 65);
  expect_refused({"checkpoint", "verify", m.dir / "none"}, 66, "none");
  expect_refused({"checkpoint", "verify", m.dir.path()}, 66, "no checkpoint");
  expect_refused({"checkpoint", "verify", m.text}, 66, "text.txt");
  std::filesystem::create_directories(m.dir / "saved-nothing/checkpoints/step-4x");
  expect_refused({"checkpoint", "verify", m.dir / "saved-nothing"}, 66, "holds no checkpoint");
  expect_refused({"checkpoint", "list", m.dir / "saved-nothing"}, 66, "holds no checkpoint");
  expect_refused({"eval", m.dir / "saved-nothing", m.text}, 66, "holds no checkpoint");
}

// What may not be read may be whole.
TEST(CheckpointVerb, WantOfPermissionIsNoDamage) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const Model m;
  std::filesystem::permissions(m.shard(), std::filesystem::perms::none);
  const Answer answer = stretto_run({"checkpoint", "verify", m.run});
  EXPECT_EQ(answer.code, 77) << answer.out;
  EXPECT_NE(answer.out.find("not read: cannot open"), std::string::npos) << answer.out;
  EXPECT_EQ(answer.out.find("damaged"), std::string::npos) << answer.out;
}

TEST(EvalVerb, MeasuresTextAndTokensAndRefusesTheRest) {
  const Model m;
  const json loss = json::parse(stretto_run({"eval", m.run, m.text, "--json"}).out);
  EXPECT_GT(loss["loss"], 2.0);
  EXPECT_LT(loss["loss"], 6.0);
  const std::string tokens = m.dir / "tokens";
  ASSERT_EQ(stretto_run({"data", "prepare", m.text, "-t", "bytes", "-o", tokens}).code, 0);
  EXPECT_EQ(json::parse(stretto_run({"eval", m.run, tokens + ".bin", "--json"}).out)["loss"],
            loss["loss"]);
  EXPECT_EQ(json::parse(stretto_run({"eval", m.run, m.text, "--device", "cpu", "--json"}).out),
            loss);
  for (const char* batch : {"1", "3", "1000"}) {  // the last one is not full
    const json other =
        json::parse(stretto_run({"eval", m.run, m.text, "--batch", batch, "--json"}).out);
    EXPECT_NEAR(other["loss"], loss["loss"], 1e-6) << batch;
    EXPECT_EQ(other["tokens"], loss["tokens"]);
  }
  expect_refused({"eval", m.run, m.text, "--device", "gpu"}, 64, "auto, cpu or cuda");
  if (cuda_device_count() == 0) {
    const Answer refused = stretto_run({"eval", m.run, m.text, "--device", "cuda"});
    EXPECT_TRUE(refused.code == 71 || refused.code == 78) << refused.code;
    EXPECT_TRUE(refused.says("or use --device cpu")) << refused.err;
  }
  // What a run does beside training is no concern of its model.
  const std::string saving = m.dir / "saving";
  ASSERT_EQ(stretto_run({"train", "tiny-100k", "data.path=" + m.text, "train.steps=3", "threads=1",
                         "checkpoint.every=1", "train.eval_every=1", "output=" + saving})
                .code,
            0);
  for (const char* device : {"auto", "cpu"}) {
    EXPECT_EQ(stretto_run({"eval", saving, m.text, "--device", device}).code, 0);
    EXPECT_EQ(stretto_run({"generate", saving, "-n", "2", "--device", device}).code, 0);
  }
  const std::string marked = m.dir.write("marked", "\xef\xbb\xbf" + content_of(m.text));
  EXPECT_EQ(json::parse(stretto_run({"eval", m.run, marked, "--json"}).out)["loss"], loss["loss"]);
  const std::string odd = m.dir.write("odd", std::string("\xff\0\xc3(", 4) + content_of(m.text));
  EXPECT_EQ(stretto_run({"eval", m.run, odd}).code, 0) << "bytes of any kind are text here";
  expect_refused({"eval", m.run, m.dir / "none"}, 66, "none");
  expect_refused({"eval", m.run, m.dir.path()}, 65, "a directory");
  expect_refused({"eval", m.run, m.dir.write("empty", "")}, 65, "empty");
  expect_refused({"eval", m.run, m.dir.write("short", "a"), "--logits", m.dir / "logits"}, 65,
                 "too few");
  EXPECT_FALSE(std::filesystem::exists(m.dir / "logits"));
  expect_refused({"eval", m.dir / "none", m.text}, 66, "none");
  expect_refused({"eval", m.run, m.dir.write("big.u16", "\xff\xff\xff\xff")}, 65, "big.u16");
  std::filesystem::resize_file(tokens + ".idx", 40);
  expect_refused({"eval", m.run, tokens + ".bin"}, 65, "tokens.idx");
}

// A text of fewer tokens than a sequence of the run is one sequence.
TEST(EvalVerb, MeasuresShortTexts) {
  const Model m;
  for (const size_t length : {2, 64}) {  // the run reads sequences of 64
    const std::string text = m.dir.write("short", content_of(m.text).substr(0, length));
    const json loss = json::parse(stretto_run({"eval", m.run, text, "--json"}).out);
    EXPECT_EQ(loss["tokens"], length - 1);
    EXPECT_GT(loss["loss"], 2.0);
    EXPECT_LT(loss["loss"], 6.0);
    const std::string line = stretto_run({"eval", m.run, text}).out;
    EXPECT_NE(line.find(fmt::format("in sequences of {} |", length - 1)), std::string::npos)
        << line;
  }
}

// As an import without its tokenizer, or a run on tokens that others made, leaves it.
TEST(EvalVerb, TakesNoTextForTokensOfAVocabularyItDoesNotKnow) {
  const Model m;
  const std::string run = m.dir / "large";
  ASSERT_EQ(stretto_run({"train", "tiny-100k", "model.vocab=600", "train.steps=1", "threads=1",
                         "output=" + run})
                .code,
            0);
  expect_refused({"eval", run, m.text}, 78, "names no tokenizer for its vocabulary of 600");
  const json bytes =
      json::parse(stretto_run({"eval", run, m.text, "--tokenizer", "bytes", "--json"}).out);
  EXPECT_EQ(json::parse(stretto_run({"eval", run, m.text, "--format", "bytes", "--json"}).out),
            bytes);
  EXPECT_GT(bytes["tokens"], 1000);
}

// Of a small vocabulary the run remembers whether its data were bytes.
TEST(EvalVerb, KnowsWhetherARunWasTrainedOnBytes) {
  const Model m;
  const std::string tokens = m.dir / "tokens", run = m.dir / "small", named = m.dir / "named";
  ASSERT_EQ(stretto_run({"data", "prepare", m.text, "-t", "bytes", "-o", tokens}).code, 0);
  const auto train = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"train", "tiny-100k", "train.steps=1", "threads=1"});
    ASSERT_EQ(stretto_run(words).code, 0);
  };
  for (const char* end : {".bin", ""}) {  // Megatron's files may be named by their stem
    const std::string out = run + end;
    train({"model.vocab=400", "data.path=" + tokens + end, "output=" + out});
    expect_refused({"eval", out, m.text}, 78, "names no tokenizer for its vocabulary of 400");
    expect_refused({"generate", out, "-n", "2"}, 78, "names no tokenizer");
    EXPECT_EQ(stretto_run({"generate", out, "-n", "2", "--tokenizer", "bytes"}).code, 0);
  }
  const std::string text = m.dir.write("text.bin.x", content_of(m.text)), of_text = run + "-text";
  train({"model.vocab=400", "data.path=" + text, "output=" + of_text});
  std::filesystem::remove(text);
  EXPECT_EQ(stretto_run({"eval", of_text, m.text}).code, 0);
  train({"model.vocab=600", "data.path=" + m.text, "data.tokenizer=bytes", "output=" + named});
  EXPECT_EQ(stretto_run({"eval", named, m.text}).code, 0);
  EXPECT_EQ(stretto_run({"generate", named, "-n", "2"}).code, 0);
}

// As an import leaves it: what was trained on bytes in that directory has no use for it.
TEST(EvalVerb, BytesOfARunComeBeforeATokenizerInItsDirectory) {
  const Model m;
  const std::string beside = m.dir / "beside", alone = m.dir / "alone";
  std::filesystem::create_directory(beside);
  ASSERT_EQ(stretto_run(
                {"tokenizer", "train", m.text, "--vocab", "280", "-o", beside + "/tokenizer.json"})
                .code,
            0);
  for (const std::string& run : {beside, alone}) {
    ASSERT_EQ(stretto_run({"train", "tiny-100k", "model.vocab=300", "train.steps=1", "threads=1",
                           "data.path=" + m.text, "data.tokenizer=bytes", "output=" + run})
                  .code,
              0);
    for (std::vector<std::string> words :
         {std::vector<std::string>{"eval", run, m.text, "--json"}, {"generate", run, "-n", "9"}}) {
      const Answer answer = stretto_run(words);
      EXPECT_EQ(answer.code, 0) << answer.err;
      words.insert(words.end(), {"--tokenizer", "bytes"});
      EXPECT_EQ(stretto_run(words).out, answer.out) << words[0];
    }
    const std::string named = run + "-named", unnamed = run + "-unnamed";
    ASSERT_EQ(stretto_run({"export", run, "-o", named, "--tokenizer", "bytes"}).code, 0);
    ASSERT_EQ(stretto_run({"export", run, "-o", unnamed}).code, 0);
    EXPECT_TRUE(content_of(unnamed + "/tokenizer.json") == content_of(named + "/tokenizer.json"));
  }
}

TEST(GenerateVerb, ContinuesTheSameWayForTheSameSeed) {
  const Model m;
  const Answer first = stretto_run({"generate", m.run, "-p", "a mo", "-n", "20", "--seed", "3"});
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.out.rfind("a mo", 0), 0u);
  EXPECT_EQ(stretto_run({"generate", m.run, "-p", "a mo", "-n", "20", "--seed", "3"}).out,
            first.out);
  EXPECT_NE(stretto_run({"generate", m.run, "-p", "a mo", "-n", "20", "--seed", "4"}).out,
            first.out);
  EXPECT_EQ(
      stretto_run({"generate", m.run, "-p", "a mo", "-n", "20", "--seed", "3", "--device", "cpu"})
          .out,
      first.out);
  expect_refused({"generate", m.run, "--device", "gpu"}, 64, "auto, cpu or cuda");
  EXPECT_EQ(stretto_run({"generate", m.run, "-n", "2", "--top-k", "5", "--top-p", "0.9"}).code, 0);
  EXPECT_EQ(stretto_run({"generate", m.run, "-p", "\xff\xc3", "-n", "2"}).code, 0);
  expect_refused({"generate", m.run, "--temperature", "-1"}, 64, "temperature");
  expect_refused({"generate", m.run, "--top-p", "0"}, 64, "top-p");
  expect_refused({"generate", m.run, "--seed", "99999999999999999999"}, 64, "--seed");
  expect_refused({"generate", m.run, "--top-k", "-99999999999999999999"}, 64, "--top-k");
  expect_refused({"generate", m.dir / "none"}, 66, "none");
  expect_refused({"generate", m.run, "-p", std::string(200, 'a')}, 64, "200 tokens");
  expect_refused({"generate", m.run, "--tokenizer", m.dir / "none.json"}, 66, "none.json");
}

TEST(GenerateVerb, GoesOnPastTheTrainedLength) {
  const Model m;
  const std::string run = m.dir / "short";
  ASSERT_EQ(stretto_run({"train", "tiny-100k", "data.path=" + m.text, "seq_len=16", "train.steps=1",
                         "threads=1", "output=" + run})
                .code,
            0);
  const Answer whole = stretto_run({"generate", run, "-p", "a mo", "-n", "12"});
  EXPECT_TRUE(whole.says("12 tokens in")) << whole.err;
  EXPECT_FALSE(whole.says("forgotten")) << whole.err;
  const Answer longer = stretto_run({"generate", run, "-p", "a mo", "-n", "150"});
  EXPECT_TRUE(longer.says("150 tokens in")) << longer.err;
  EXPECT_TRUE(longer.says("reads 16 at once")) << longer.err;
  expect_refused({"generate", run, "-p", "a model of a few "}, 64, "17 tokens");
}

// The model's vocabulary is padded: at most 280 of its 1024 ids mean something.
TEST(GenerateVerb, DrawsNothingThatTheTokenizerDoesNotHave) {
  const Model m;
  const std::string tokenizer = m.dir / "t.json", data = m.dir / "d", run = m.dir / "padded";
  ASSERT_EQ(stretto_run({"tokenizer", "train", m.text, "--vocab", "280", "-o", tokenizer}).code, 0);
  ASSERT_EQ(stretto_run({"data", "prepare", m.text, "-t", tokenizer, "-o", data}).code, 0);
  ASSERT_EQ(stretto_run({"train", "tiny-100k", "model.vocab=1024", "seq_len=16", "train.steps=1",
                         "threads=1", "data.tokenizer=" + tokenizer, "output=" + run,
                         "data.path=" + data + ".bin"})
                .code,
            0);
  for (const char* seed : {"1", "2", "3"}) {
    const Answer answer =
        stretto_run({"generate", run, "-p", "a", "-n", "12", "-t", "5", "--seed", seed});
    EXPECT_EQ(answer.code, 0) << answer.err;
  }
  EXPECT_EQ(stretto_run({"generate", run, "-p", "a", "-n", "12", "-t", "0"}).code, 0);
}

// README's chain, on a text too short to learn from.
TEST(TrainVerb, FromATextToAModel) {
  const Model m;
  const std::string tokenizer = m.dir / "t.json", data = m.dir / "d", run = m.dir / "bpe";
  ASSERT_EQ(stretto_run({"tokenizer", "train", m.text, "--vocab", "280", "-o", tokenizer}).code, 0);
  ASSERT_EQ(stretto_run({"data", "prepare", m.text, "-t", tokenizer, "-o", data}).code, 0);
  std::vector<std::string> words = {"train",
                                    "tiny-100k",
                                    "model.vocab=280",
                                    "seq_len=16",
                                    "train.steps=2",
                                    "threads=1",
                                    "data.tokenizer=" + tokenizer,
                                    "output=" + run,
                                    "data.path=" + m.text};
  expect_refused(words, 78, "is text, but data.tokenizer");
  words.back() = "data.path=" + data + ".bin";
  ASSERT_EQ(stretto_run(words).code, 0);
  EXPECT_EQ(stretto_run({"generate", run, "-p", "a model", "-n", "5"}).out.rfind("a model", 0), 0u);
  const Answer text = stretto_run({"eval", run, m.text});
  EXPECT_EQ(text.code, 0) << text.err;
  const std::string marked = m.dir.write("marked.txt", "\xef\xbb\xbf" + content_of(m.text));
  EXPECT_EQ(stretto_run({"eval", run, marked}).out, text.out);
  const auto all_bytes = [&](const std::string& file) {
    return stretto_run({"eval", run, file, "--format", "bytes", "--tokenizer", tokenizer}).out;
  };
  EXPECT_EQ(all_bytes(m.text), text.out);
  EXPECT_NE(all_bytes(marked), text.out) << "whatever its first bytes mean elsewhere";
  const std::string large = m.dir.write("large.txt", "");
  std::filesystem::resize_file(large, (uintmax_t{4} << 30) + 1);  // without taking room
  expect_refused({"eval", run, large}, 65, "stretto data prepare");
  ASSERT_EQ(stretto_run({"export", run, "-o", m.dir / "hf"}).code, 0);
  EXPECT_EQ(content_of(m.dir / "hf/tokenizer.json"), content_of(tokenizer));
  words.back() += "x";
  words[7] = "output=" + run + "2";
  expect_refused(words, 66, "d.binx");
}

// A directory with vocab.json and merges.txt, and the tokenizer.json it was made from.
TEST(TrainVerb, KnowsATokenizerByItsContent) {
  const Model m;
  const std::string file = m.dir / "t.json", pair = m.dir / "pair/", data = m.dir / "d";
  ASSERT_EQ(stretto_run({"tokenizer", "train", m.text, "--vocab", "270", "-o", file}).code, 0);
  ASSERT_EQ(stretto_run({"tokenizer", "import", file, "-o", pair}).code, 0);
  ASSERT_EQ(stretto_run({"data", "prepare", m.text, "-t", file, "-o", data}).code, 0);
  const auto train = [&](const std::string& output, const std::string& tokenizer, int steps) {
    return stretto_run({"train", "tiny-100k", "model.vocab=300", "seq_len=16", "threads=1",
                        "data.path=" + data + ".bin", "data.tokenizer=" + tokenizer,
                        "train.steps=" + std::to_string(steps), "output=" + m.dir / output});
  };
  const Answer begun = train("named", file, 2);
  ASSERT_EQ(begun.code, 0) << begun.err;
  const Answer on = train("named", pair, 3);
  EXPECT_EQ(on.code, 0) << on.err;
  EXPECT_FALSE(on.says("not the tokenizer of this run")) << on.err;
  std::filesystem::create_directory(m.dir / "copied");
  std::filesystem::copy_file(file, m.dir / "copied/tokenizer.json");
  const Answer fresh = train("copied", pair, 2);
  EXPECT_EQ(fresh.code, 0) << fresh.err;
}

// What `generate` could not read is found when the run begins, not after it.
TEST(TrainVerb, FindsADamagedTokenizer) {
  const Model m;
  const std::string file = m.dir / "t.json", data = m.dir / "d", copy = m.dir / "on/tokenizer.json";
  ASSERT_EQ(stretto_run({"tokenizer", "train", m.text, "--vocab", "270", "-o", file}).code, 0);
  ASSERT_EQ(stretto_run({"data", "prepare", m.text, "-t", file, "-o", data}).code, 0);
  const std::string whole = content_of(file), half = whole.substr(0, whole.size() / 2);
  const auto words = [&](const std::string& output, int steps) {
    return std::vector<std::string>{"train",
                                    "tiny-100k",
                                    "model.vocab=300",
                                    "seq_len=16",
                                    "threads=1",
                                    "data.path=" + data + ".bin",
                                    "data.tokenizer=" + file,
                                    "train.steps=" + std::to_string(steps),
                                    "output=" + m.dir / output};
  };
  ASSERT_EQ(stretto_run(words("on", 2)).code, 0);

  m.dir.write("t.json", half);
  expect_refused(words("fresh", 2), 65, "data.tokenizer=" + file);
  EXPECT_EQ(stretto_run(words("on", 3)).code, 0) << "a run that goes on has its copy";
  m.dir.write("t.json", whole);
  m.dir.write("on/tokenizer.json", half);
  const Answer on = stretto_run(words("on", 4));
  EXPECT_EQ(on.code, 0) << on.err;
  EXPECT_TRUE(on.says("the tokenizer in output= cannot be used") && on.says(copy)) << on.err;
  std::filesystem::remove(copy);  // as it says
  EXPECT_EQ(stretto_run(words("on", 5)).code, 0);
  EXPECT_EQ(content_of(copy), whole);
  std::filesystem::create_directory(m.dir / "left");
  m.dir.write("left/tokenizer.json", half);
  expect_refused(words("left", 2), 65, "left/tokenizer.json");
}

// The run has a copy of its tokenizer: neither moving the run nor the file itself matters after
// that.
// Training needs only the ids.
TEST(TrainVerb, ATokenizerThatIsNotThereIsAWarning) {
  const Model m;
  const std::string tokenizer = m.dir / "t.json", data = m.dir / "d", run = m.dir / "wordless";
  ASSERT_EQ(stretto_run({"tokenizer", "train", m.text, "--vocab", "270", "-o", tokenizer}).code, 0);
  ASSERT_EQ(stretto_run({"data", "prepare", m.text, "-t", tokenizer, "-o", data}).code, 0);
  std::filesystem::rename(tokenizer, m.dir / "elsewhere.json");
  const Answer trained = stretto_run({"train", "tiny-100k", "model.vocab=300", "seq_len=16",
                                      "train.steps=2", "threads=1", "data.tokenizer=" + tokenizer,
                                      "data.path=" + data + ".bin", "output=" + run});
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(trained.says("training goes on, but `generate` will need it")) << trained.err;
  EXPECT_FALSE(std::filesystem::exists(run + "/tokenizer.json"));
  EXPECT_EQ(stretto_run({"generate", run, "-n", "2"}).code, 66) << "the path as it was typed";
  std::filesystem::rename(m.dir / "elsewhere.json", tokenizer);
  EXPECT_EQ(stretto_run({"generate", run, "-n", "2"}).code, 0);
}

TEST(TrainVerb, KeepsItsTokenizer) {
  const Model m;
  const std::string tokenizer = m.dir / "t.json", data = m.dir / "d", run = m.dir / "bpe";
  ASSERT_EQ(stretto_run({"tokenizer", "train", m.text, "--vocab", "270", "-o", tokenizer}).code, 0);
  ASSERT_EQ(stretto_run({"data", "prepare", m.text, "-t", tokenizer, "-o", data}).code, 0);
  const auto words = [&](const std::string& output) {
    return std::vector<std::string>{"train",
                                    "tiny-100k",
                                    "model.vocab=300",
                                    "seq_len=16",
                                    "train.steps=2",
                                    "threads=1",
                                    "data.tokenizer=" + tokenizer,
                                    "data.path=" + data + ".bin",
                                    "output=" + output};
  };
  const auto loss = [&](const std::string& path) {
    const Answer answer = stretto_run({"eval", path, m.text, "--json"});
    EXPECT_EQ(answer.code, 0) << answer.err;
    return answer.code == 0 ? json::parse(answer.out)["loss"].get<double>() : 0;
  };
  ASSERT_EQ(stretto_run(words(run)).code, 0);
  const std::string kept = content_of(tokenizer);
  EXPECT_EQ(content_of(run + "/tokenizer.json"), kept);
  const double before = loss(run);

  // Another tokenizer in the place of the first.
  ASSERT_EQ(stretto_run({"tokenizer", "train", m.text, "--vocab", "260", "-o", tokenizer}).code, 0);
  EXPECT_EQ(loss(run), before);
  EXPECT_EQ(loss(run + "/checkpoints/step-2/"), before);
  EXPECT_TRUE(stretto_run(words(run)).says("not the tokenizer of this run")) << "and goes on";
  EXPECT_EQ(content_of(run + "/tokenizer.json"), kept);
  std::filesystem::create_directory(m.dir / "taken");
  m.dir.write("taken/tokenizer.json", kept);
  expect_refused(words(m.dir / "taken"), 73, "taken/tokenizer.json");
  EXPECT_EQ(content_of(m.dir / "taken/tokenizer.json"), kept);

  std::filesystem::remove(tokenizer);
  std::vector<std::string> wordless = words(run);  // goes on without saying which
  std::erase(wordless, "data.tokenizer=" + tokenizer);
  wordless.emplace_back("train.lr=1e-9");
  wordless.emplace_back("train.steps=3");
  ASSERT_EQ(stretto_run(wordless).code, 0);
  EXPECT_NEAR(loss(run), before, 0.5) << "not bytes";
  const std::string moved = m.dir / "moved";
  std::filesystem::rename(run, moved);
  EXPECT_EQ(loss(moved), before);
  EXPECT_EQ(stretto_run({"generate", moved, "-n", "5"}).code, 0);
  ASSERT_EQ(stretto_run({"export", moved, "-o", m.dir / "hf"}).code, 0);
  EXPECT_EQ(content_of(m.dir / "hf/tokenizer.json"), kept);
  ASSERT_EQ(stretto_run({"import", m.dir / "hf", "-o", m.dir / "in"}).code, 0);
  const double imported = loss(m.dir / "in");
  std::filesystem::rename(m.dir / "in", m.dir / "elsewhere");
  EXPECT_EQ(loss(m.dir / "elsewhere"), imported);
  const Answer tuned = stretto_run({"train", m.dir / "elsewhere/model.yaml", "train.steps=1",
                                    "output=" + (m.dir / "elsewhere"), "threads=1"});
  EXPECT_TRUE(tuned.says("weights alone, step 0")) << tuned.err;  // no moments lie there

  const Answer without = stretto_run(words(m.dir / "none"));
  EXPECT_EQ(without.code, 0) << without.err;
  EXPECT_TRUE(without.says("training goes on")) << without.err;
}

// What is imported would be step 0 of a run that is under way, and the start of the next one.
TEST(ImportVerb, ARunThatIsUnderWayIsLeftAlone) {
  const Model m;
  ASSERT_EQ(stretto_run({"export", m.run, "-o", m.dir / "hf"}).code, 0);
  std::filesystem::create_directory(m.dir / "busy");
  const int lock = ::open((m.dir / "busy/lock").c_str(), O_RDWR | O_CREAT, 0640);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  expect_refused({"import", m.dir / "hf", "-o", m.dir / "busy"}, 73, "in use by another run");
  EXPECT_FALSE(std::filesystem::exists(m.dir / "busy/checkpoints"));
  EXPECT_FALSE(std::filesystem::exists(m.dir / "busy/model.yaml"));
  ::close(lock);
  EXPECT_EQ(stretto_run({"import", m.dir / "hf", "-o", m.dir / "busy"}).code, 0);
}

TEST(ImportVerb, AForeignFileDoesNotSteerTheTerminal) {
  const TempDir dir(Where::memory);
  dir.write("config.json", R"({"model_type": "\u001b[31m\u001b]0;title\u0007"})");
  const Answer answer = stretto_run({"import", dir.path(), "-o", dir / "run"});
  EXPECT_EQ(answer.code, 65) << answer.err;
  EXPECT_TRUE(answer.says("model_type '\\x1b[31m\\x1b]0;title\\x07'\n  fix: ")) << answer.err;
}

TEST(ExportVerb, WhatGoesOutComesBackAndNothingElse) {
  const Model m;
  const std::string out = m.dir / "hf", back = m.dir / "back";
  const Answer sent = stretto_run({"export", m.run, "-o", out, "--shard-gb", "0.0002", "--json"});
  ASSERT_EQ(sent.code, 0) << sent.err;
  EXPECT_GT(json::parse(sent.out)["files"], 1);
  EXPECT_TRUE(std::filesystem::exists(out + "/model.safetensors.index.json"));
  ASSERT_EQ(stretto_run({"import", out, "-o", back}).code, 0);
  EXPECT_EQ(json::parse(stretto_run({"eval", back, m.text, "--json"}).out)["loss"],
            json::parse(stretto_run({"eval", m.run, m.text, "--json"}).out)["loss"]);

  expect_refused({"export", m.run, "-o", out}, 73, "exists");
  expect_refused({"export", m.run, "-o", m.dir / "y", "--format", "onnx"}, 64, "onnx");
  expect_refused({"import", out, "-o", back}, 73, "already");
  expect_refused({"import", m.dir / "none", "-o", m.dir / "z"}, 66, "none");
  expect_refused({"import", m.text, "-o", m.dir / "z"}, 66, "text.txt");
  const std::string first =
      out + "/model-00001-of-" +
      (json::parse(sent.out)["files"] < 10 ? "0000" + json::parse(sent.out)["files"].dump()
                                           : "00010") +
      ".safetensors";
  ASSERT_TRUE(std::filesystem::exists(first)) << first;
  const auto bytes = std::filesystem::file_size(first);
  std::filesystem::resize_file(first, bytes - 1);
  expect_refused({"import", out, "-o", m.dir / "z"}, 65, "model-00001");
  m.dir.write("hf/config.json", std::string("\x7f"
                                            "ELF\0",
                                            5));
  expect_refused({"import", out, "-o", m.dir / "z"}, 65, "config.json");
  EXPECT_FALSE(std::filesystem::exists(m.dir / "z/checkpoints/step-0"));
}

// As programs write it that train the head for itself, but leave the flag as GPT-2 has it.
TEST(ImportVerb, RefusesAHeadThatWouldBeLost) {
  const TempDir dir(Where::memory);
  const std::string run = dir / "own", sent = dir / "hf";
  EXPECT_EQ(stretto_run({"train", "tiny-100k", "seq_len=16", "train.steps=1", "threads=1",
                         "model.tied_embedding=false", "output=" + run})
                .code,
            0);
  EXPECT_EQ(stretto_run({"export", run, "-o", sent}).code, 0);
  json config = json::parse(content_of(sent + "/config.json"));
  config["tie_word_embeddings"] = true;
  dir.write("hf/config.json", config.dump());
  expect_refused({"import", sent, "-o", dir / "a"}, 65, "set tie_word_embeddings to false");
  EXPECT_FALSE(std::filesystem::exists(dir / "a/checkpoints"));
}

// What it saves half-way lies where TMPDIR says.
TEST(VerifyVerb, LeavesNothingWhenItIsStopped) {
  const TempDir dir(Where::memory);
  ::setenv("TMPDIR", dir.path().c_str(), 1);
  Program program({"verify", "tiny-100k", "seq_len=16", "global_batch=2", "threads=1", "--ranks",
                   "1", "--steps", "1000"});
  ::unsetenv("TMPDIR");
  while (dir.entries() == 0 && !program.ended()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  program.signal(SIGTERM);
  const Answer answer = program.wait();
  EXPECT_EQ(answer.code, 75) << answer.err;
  EXPECT_TRUE(answer.says("stopped before the end")) << answer.err;
  EXPECT_EQ(dir.entries(), 0u);
}

}  // namespace
}  // namespace stretto::test
