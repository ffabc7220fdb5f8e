// stretto tokenizer train|encode|decode|import.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/units.h"
#include "cli/keep_inputs.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "data/corpus.h"
#include "data/encoder.h"
#include "data/trainer.h"

namespace stretto::cli {
namespace {

constexpr int64_t kMaxInputBytes = int64_t{4} << 30;

std::string read_input(const std::string& path) {
  if (path != "-") return read_file(posix_fs(), path, kMaxInputBytes);
  std::string text;
  char buffer[65536];
  while (true) {
    const ssize_t n = ::read(STDIN_FILENO, buffer, sizeof(buffer));
    if (n < 0) throw fs_error(errno, "read", "standard input");
    if (n == 0) return text;
    text.append(buffer, static_cast<size_t>(n));
  }
}

// Text that may hold anything: on a terminal it cannot steer it.
void write_output(std::string_view text) {
  const std::string data = for_stdout(text);
  if (std::fwrite(data.data(), 1, data.size(), stdout) != data.size() || std::fflush(stdout) != 0) {
    throw fs_error(errno, "write", "standard output");
  }
}

std::string pattern_of(const std::string& name) {
  if (name == "gpt2" || name == "neox") return kGpt2Pattern;
  if (name == "llama3") return kLlama3Pattern;
  throw Error(ExitCode::usage, fmt::format("unknown split pattern \"{}\"", name),
              "use gpt2, neox or llama3");
}

// Whether the tokenizer has properties that vocab.json and merges.txt cannot express; readers of
// these files assume GPT-2's.
bool more_than_pair(const Tokenizer& tokenizer) {
  const TokenizerSpec& spec = tokenizer.spec();
  const bool other_added =
      std::any_of(spec.added.begin(), spec.added.end(),
                  [](const AddedToken& token) { return token.text != "<|endoftext|>"; });
  return !spec.split || spec.pattern != kGpt2Pattern || spec.nfc || spec.prefix_space ||
         spec.ignore_merges || other_added;
}

// For PATH.json writes one tokenizer.json. Otherwise a directory with vocab.json and merges.txt,
// and with a tokenizer.json, which readers prefer, if those two do not express everything or it
// exists already.
void save_tokenizer(const Tokenizer& tokenizer, const std::string& path) {
  Fs& fs = posix_fs();
  if (path.ends_with(".json")) {
    write_file_atomic(fs, path, tokenizer_to_json(tokenizer));
    return;
  }
  make_dirs(fs, path);
  const std::string json = join_path(path, "tokenizer.json");
  const bool more = more_than_pair(tokenizer);
  if (more || fs.info(json)) write_file_atomic(fs, json, tokenizer_to_json(tokenizer));
  if (more) {
    spdlog::info(
        "{}: use this one; vocab.json and merges.txt beside it cannot say how the text is split, "
        "or "
        "what its special tokens are",
        json);
  }
  write_file_atomic(fs, join_path(path, "merges.txt"), merges_to_text(tokenizer));
  write_file_atomic(fs, join_path(path, "vocab.json"), vocab_to_json(tokenizer));
}

// The files that save_tokenizer() may replace.
std::vector<std::string> outputs_of(const std::string& path) {
  if (path.ends_with(".json")) return {path};
  return {join_path(path, "tokenizer.json"), join_path(path, "merges.txt"),
          join_path(path, "vocab.json")};
}

std::string left_out_text(const PieceCounts::LeftOut& left_out) {
  return fmt::format("{} piece{} of more than {} KiB ({} in all)", with_commas(left_out.pieces),
                     left_out.pieces == 1 ? "" : "s", PieceCounts::kMaxPieceBytes >> 10,
                     format_bytes(static_cast<double>(left_out.bytes)));
}

struct TrainArguments {
  std::vector<std::string> inputs;
  std::string output = "tokenizer.json";
  std::string pattern = "gpt2";
  std::string key;
  int64_t vocab = 50257;
  int64_t min_count = 2;
  std::vector<std::string> special = {"<|endoftext|>"};
  int threads = 0;
};

void train(const TrainArguments& arguments) {
  const double start = clock_seconds();
  TrainTokenizerOptions options;
  options.vocab_size = arguments.vocab;
  options.min_count = arguments.min_count;
  options.pattern = pattern_of(arguments.pattern);
  options.special = arguments.special;
  options.threads = arguments.threads > 0 ? arguments.threads : default_threads();
  CorpusReader corpus({arguments.inputs, arguments.key, false});
  keep_inputs("-o", arguments.output, outputs_of(arguments.output), arguments.inputs);
  const auto splitter = make_splitter(options.pattern);

  ProgressLine counting("count", corpus.total_bytes());
  std::atomic<int64_t> bytes{0};
  const PieceCounts counts = count_pieces(corpus, *splitter, options.threads,
                                          [&](int64_t more) { counting.update(bytes += more); });
  counting.finish();
  const PieceCounts::LeftOut& left_out = counts.left_out();
  if (counts.map().empty() && left_out.pieces > 0) {
    throw Error(ExitCode::bad_data,
                fmt::format("{}: nothing but {}", fmt::join(arguments.inputs, ", "),
                            left_out_text(left_out)),
                "give text with words; a piece ends where a word does");
  }
  if (counts.map().empty()) corpus.refuse_as_empty();

  ProgressLine merging("merge", options.vocab_size, "tokens");
  const Tokenizer tokenizer =
      train_tokenizer(counts, options, [&](int64_t size) { merging.update(size); });
  merging.finish();
  save_tokenizer(tokenizer, arguments.output);
  const double seconds = clock_seconds() - start;
  spdlog::info("{}: {} tokens from {} distinct pieces of {} in {}", arguments.output,
               with_commas(tokenizer.vocab_size()), with_commas(std::ssize(counts.map())),
               format_bytes(static_cast<double>(corpus.total_bytes())), format_seconds(seconds));
  if (left_out.pieces > 0) {
    spdlog::warn("nothing was learned from {}; a piece ends where a word does",
                 left_out_text(left_out));
  }
  if (tokenizer.vocab_size() < options.vocab_size) {
    spdlog::warn("{} no more pairs that occur {}, so there are fewer than the {} tokens asked for",
                 left_out.pieces > 0 ? "the rest of the text has" : "the text has",
                 counted(options.min_count, "time"), with_commas(options.vocab_size));
  }
}

void encode(const std::string& tokenizer_path, const std::string& input, bool json, bool ordinary) {
  const Tokenizer tokenizer = load_tokenizer(tokenizer_path);
  Encoder encoder(tokenizer);
  std::vector<int32_t> ids;
  const std::string text = read_input(input);
  ordinary ? encoder.encode_ordinary(text, ids) : encoder.encode(text, ids);
  std::string out = fmt::format("{}", fmt::join(ids, json ? "," : " "));
  write_output(json ? "[" + out + "]\n" : out + "\n");
}

// Ids separated by anything but digits, so that our own output can be read, with or without --json.
std::vector<int32_t> parse_ids(std::string_view text) {
  std::vector<int32_t> ids;
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    if (*at == ' ' || *at == ',' || *at == '[' || *at == ']' || *at == '\n' || *at == '\t' ||
        *at == '\r') {
      ++at;
      continue;
    }
    int32_t id = 0;
    const auto [after, error] = std::from_chars(at, end, id);
    if (error != std::errc() || id < 0) {
      throw Error(
          ExitCode::bad_data,
          fmt::format("\"{}\" is not a token id",
                      printable(std::string_view(at, std::min<size_t>(16, size_t(end - at))))),
          "give numbers separated by spaces or commas");
    }
    ids.push_back(id);
    at = after;
  }
  return ids;
}

void decode(const std::string& tokenizer_path, const std::string& input, bool skip_special) {
  const Tokenizer tokenizer = load_tokenizer(tokenizer_path);
  write_output(tokenizer.decode(parse_ids(read_input(input)), skip_special));
}

void import(const std::string& input, const std::string& output) {
  const Tokenizer tokenizer = load_tokenizer(input);
  keep_inputs("-o", output, outputs_of(output), {input});
  save_tokenizer(tokenizer, output);
  spdlog::info("{}: {} tokens, {} merge{}, {} added", output, with_commas(tokenizer.vocab_size()),
               with_commas(std::ssize(tokenizer.spec().merges)),
               tokenizer.spec().merges.size() == 1 ? "" : "s", tokenizer.spec().added.size());
}

void add_training(Command& verb) {
  auto* sub = verb.add_subcommand(
      "train",
      "Learn a vocabulary from text\n\nExamples:\n"
      "  stretto tokenizer train corpus.txt -o tokenizer.json --vocab 8192\n"
      "  stretto tokenizer train *.jsonl -o tok/ --pattern llama3   tok/tokenizer.json and others");
  auto a = std::make_shared<TrainArguments>();
  sub->add_option("inputs", a->inputs, "Text or JSON Lines (.jsonl) files")->required()->file();
  sub->add_option("-o,--output", a->output,
                  "tokenizer .json, or a directory for vocab.json and "
                  "merges.txt")
      ->file()
      ->capture_default_str();
  sub->add_option("--vocab", a->vocab, "Vocabulary size")->capture_default_str();
  sub->add_option("--pattern", a->pattern, "Split like gpt2, neox or llama3")
      ->offers({"gpt2", "neox", "llama3"})
      ->capture_default_str();
  sub->add_option("--min-count", a->min_count, "Merge pairs seen at least this often")
      ->capture_default_str()
      ->between(1, 1e15);
  sub->add_option("--special", a->special, "Special tokens, ids from 0")->capture_default_str();
  sub->add_option("--key", a->key, "Key of the text in JSON Lines [text]");
  sub->add_option("--threads", a->threads, "0: all cores")->capture_default_str()->between(0, 4096);
  sub->callback([a] { train(*a); });
}

void add_encode_decode(Command& verb) {
  struct Arguments {
    std::string tokenizer, input = "-";
    bool flag = false, ordinary = false;
  };
  auto e = std::make_shared<Arguments>();
  auto* encoder =
      verb.add_subcommand("encode",
                          "Text to token ids\n\nExamples:\n"
                          "  echo Hello | stretto tokenizer encode tokenizer.json\n"
                          "  stretto tokenizer encode tokenizer.json book.txt --json > ids.json");
  encoder->add_option("tokenizer", e->tokenizer, "tokenizer.json, vocab.json or a directory")
      ->required()
      ->file();
  encoder->add_option("input", e->input, "Text file, - for standard input")->file();
  encoder->add_flag("--json", e->flag, "A JSON list");
  encoder->add_flag("--ordinary", e->ordinary, "Special tokens in the text are plain text");
  encoder->callback([e] { encode(e->tokenizer, e->input, e->flag, e->ordinary); });

  auto d = std::make_shared<Arguments>();
  auto* decoder = verb.add_subcommand("decode",
                                      "Token ids to text\n\nExamples:\n"
                                      "  echo 15496 995 | stretto tokenizer decode tokenizer.json");
  decoder->add_option("tokenizer", d->tokenizer, "tokenizer.json, vocab.json or a directory")
      ->required()
      ->file();
  decoder->add_option("input", d->input, "File of ids, - for standard input")->file();
  decoder->add_flag("--skip-special", d->flag, "Leave special tokens out");
  decoder->callback([d] { decode(d->tokenizer, d->input, d->flag); });
}

void add_import(Command& verb) {
  struct Arguments {
    std::string input, output;
  };
  auto a = std::make_shared<Arguments>();
  auto* sub = verb.add_subcommand(
      "import",
      "Check a tokenizer and write it in the other form\n\nExamples:\n"
      "  stretto tokenizer import gpt2/vocab.json -o tokenizer.json   merges.txt lies beside it\n"
      "  stretto tokenizer import tokenizer.json -o gpt2/             vocab.json and merges.txt");
  sub->add_option("input", a->input, "tokenizer.json, vocab.json or a directory")
      ->required()
      ->file();
  sub->add_option("-o,--output", a->output, "A .json file, or a directory")->required()->file();
  sub->callback([a] { import(a->input, a->output); });
}

}  // namespace

void add_tokenizer(Command& app) {
  Command* verb = app.add_subcommand(
      "tokenizer",
      "Trains, runs and converts byte-level BPE tokenizers\n\nExamples:\n"
      "  stretto tokenizer train corpus.txt -o tokenizer.json --vocab 8192\n"
      "  echo Hello | stretto tokenizer encode t.json | stretto tokenizer decode t.json");
  verb->require_subcommand(1);
  add_training(*verb);
  add_encode_decode(*verb);
  add_import(*verb);
}

}  // namespace stretto::cli
