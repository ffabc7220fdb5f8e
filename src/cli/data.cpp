// stretto data prepare|info.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/keep_inputs.h"
#include "cli/page.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "config/schema.h"
#include "data/prepare.h"
#include "train/signals.h"

namespace stretto::cli {
namespace {

Tokenizer tokenizer_named(const std::string& name) {
  return name == "bytes" ? byte_tokenizer() : load_tokenizer(name);
}

struct PrepareArguments {
  std::vector<std::string> inputs;
  std::string tokenizer;
  std::string output;
  std::string format = "megatron";
  std::string key;
  std::string end_token;
  bool no_end = false;
  bool line_documents = false;
  bool json = false;
  int threads = 0;
};

std::optional<int32_t> end_token(const Tokenizer& tokenizer, const PrepareArguments& a) {
  if (a.no_end || a.tokenizer == "bytes") return std::nullopt;
  const auto id =
      a.end_token.empty() ? tokenizer.end_of_document() : tokenizer.find_added(a.end_token);
  if (!id) {
    throw Error(ExitCode::usage,
                a.end_token.empty()
                    ? fmt::format("{} has no <|endoftext|> to end documents with", a.tokenizer)
                    : fmt::format("{} has no added token \"{}\"", a.tokenizer, a.end_token),
                "name one with --end-token, or use --no-end-token");
  }
  return id;
}

// The output without .bin or .idx. It must leave a name, because a file called ".bin" is hidden.
std::string stem_of(const PrepareArguments& a) {
  const bool suffixed = a.output.ends_with(".bin") || a.output.ends_with(".idx");
  std::string stem = suffixed ? a.output.substr(0, a.output.size() - 4) : a.output;
  const std::string name = std::filesystem::path(stem).filename().string();
  if (!name.empty() && name != "." && name != "..") return stem;
  throw Error(ExitCode::usage, fmt::format("-o {} has no file name", printable(a.output)),
              "give the name of the token file, such as -o DIR/corpus");
}

std::string llmc_path(const PrepareArguments& a) {
  return a.output.ends_with(".bin") ? a.output : a.output + ".bin";
}

std::vector<std::string> outputs_of(const PrepareArguments& a) {
  if (a.format == "llmc") return {llmc_path(a)};
  const std::string stem = stem_of(a);
  return {stem + ".bin", stem + ".idx"};
}

// Refuses to write a .bin beside an index: it would be read as Megatron's.
void refuse_index_beside(const std::string& bin) {
  const std::string index = bin.substr(0, bin.size() - 4) + ".idx";
  if (!posix_fs().info(index)) return;
  throw Error(ExitCode::cannot_create,
              fmt::format("{} is there, and would be read as the index of {}", printable(index),
                          printable(bin)),
              "remove it, or choose another name with -o");
}

std::unique_ptr<TokenWriter> open_writer(const PrepareArguments& a, int64_t vocab) {
  if (a.format == "megatron") return write_megatron(a.output, vocab);
  if (a.format == "llmc") {
    return write_llmc(llmc_path(a), vocab);
  }
  throw Error(ExitCode::usage, fmt::format("unknown output format \"{}\"", a.format),
              "use megatron or llmc");
}

void prepare(const PrepareArguments& a) {
  const double start = clock_seconds();
  const Tokenizer tokenizer = tokenizer_named(a.tokenizer);
  const auto end = end_token(tokenizer, a);
  CorpusReader corpus({a.inputs, a.key, a.line_documents});
  keep_inputs("-o", a.output, outputs_of(a), a.inputs);
  if (a.format == "llmc") refuse_index_beside(llmc_path(a));
  install_stop_signals();  // when asked to stop, the writer removes its unfinished files
  const auto writer = open_writer(a, tokenizer.vocab_size());
  const int threads = a.threads > 0 ? a.threads : default_threads();

  ProgressLine line("prepare", corpus.total_bytes());
  const PrepareProgress done = prepare_tokens(
      corpus, tokenizer, end, *writer, threads, [&](const PrepareProgress& progress) {
        line.update(progress.bytes);
        if (stop_signal() == 0) return;
        throw Error(ExitCode::resumable, "stopped before the end; nothing was written",
                    "run the same command again");
      });
  line.finish();
  const double seconds = clock_seconds() - start;
  const double rate = static_cast<double>(done.bytes) / 1e6 / seconds;
  if (a.json) {
    const nlohmann::json record = {{"output", a.output},
                                   {"format", a.format},
                                   {"tokens", done.tokens},
                                   {"documents", done.documents},
                                   {"input_bytes", done.bytes},
                                   {"seconds", seconds},
                                   {"vocab", tokenizer.vocab_size()}};
    print_json(record, -1);
    return;
  }
  spdlog::info("{}: {} tokens, {} document{} from {} in {} ({:.1f} MB/s)", a.output,
               with_commas(done.tokens), with_commas(done.documents),
               done.documents == 1 ? "" : "s", format_bytes(static_cast<double>(done.bytes)),
               format_seconds(seconds), rate);
}

struct InfoArguments {
  std::string path;
  std::string tokenizer;
  std::string format = "auto";
  int samples = 3;
  bool json = false;
};

struct Scan {
  int32_t lowest = INT32_MAX, highest = 0;
  std::optional<int64_t> distinct;  // none if there are ids that no vocabulary has
};

constexpr int32_t kMostIds = 1 << 24;

// Goes over all ids once. The mapped file is streamed, so memory stays small.
Scan scan_ids(const TokenSource& source) {
  ProgressLine line("scan", source.tokens(), "tokens");
  Scan scan;
  std::vector<bool> seen;
  std::vector<int32_t> ids(size_t{1} << 20);
  for (int64_t at = 0; at < source.tokens(); at += std::ssize(ids)) {
    ids.resize(static_cast<size_t>(std::min(std::ssize(ids), source.tokens() - at)));
    source.read(at, ids);
    const auto [low, high] = std::minmax_element(ids.begin(), ids.end());
    scan.lowest = std::min(scan.lowest, *low);
    scan.highest = std::max(scan.highest, *high);
    // A damaged file may hold any id, so distinct ids are counted only up to a plausible
    // vocabulary.
    if (scan.highest < kMostIds) {
      if (std::ssize(seen) <= scan.highest) seen.resize(static_cast<size_t>(scan.highest) + 1);
      for (const int32_t id : ids) seen[static_cast<size_t>(id)] = true;
    }
    line.update(at);
  }
  if (scan.highest < kMostIds) scan.distinct = std::count(seen.begin(), seen.end(), true);
  return scan;
}

std::vector<std::string> decoded_samples(const TokenSource& source, const InfoArguments& a) {
  std::vector<std::string> texts;
  const bool bytes = source.format() == "bytes";
  if (a.tokenizer.empty() && !bytes) return texts;
  const Tokenizer tokenizer = tokenizer_named(bytes ? "bytes" : a.tokenizer);
  const int64_t length = std::min<int64_t>(source.tokens(), bytes ? 120 : 40);
  for (int i = 0; i < a.samples; ++i) {
    std::vector<int32_t> ids(static_cast<size_t>(length));
    source.read((source.tokens() - length) / std::max(a.samples - 1, 1) * i, ids);
    texts.push_back(tokenizer.decode(ids));
  }
  return texts;
}

void info(const InfoArguments& a) {
  const auto source = open_tokens(a.path, parse_token_format(a.format));
  const Scan scan = scan_ids(*source);
  const std::vector<std::string> samples = decoded_samples(*source, a);
  if (a.json) {
    const nlohmann::json record = {
        {"path", a.path},
        {"format", source->format()},
        {"tokens", source->tokens()},
        {"documents", source->documents()},
        {"lowest_id", scan.lowest},
        {"highest_id", scan.highest},
        {"distinct_ids", scan.distinct ? nlohmann::json(*scan.distinct) : nlohmann::json()},
        {"samples", samples}};
    print_json(record);
    return;
  }
  std::string page = fmt::format("{}\n  format     {}\n  tokens     {}\n", printable(a.path),
                                 source->format(), with_commas(source->tokens()));
  if (source->documents() > 0) {
    const double mean =
        static_cast<double>(source->tokens()) / static_cast<double>(source->documents());
    page += fmt::format("  documents  {} (mean {:.1f} tokens)\n", with_commas(source->documents()),
                        mean);
  }
  page += fmt::format(
      "  ids        {} to {}, {}: the model needs a vocabulary of {} or more\n", scan.lowest,
      scan.highest,
      scan.distinct ? with_commas(*scan.distinct) + " distinct" : "more than tokenizers have",
      with_commas(int64_t{scan.highest} + 1));
  for (const std::string& text : samples) page += fmt::format("  sample     {}\n", printable(text));
  if (samples.empty()) page += "  sample     give --tokenizer to see text\n";
  write_page(page);
}

void add_prepare(Command& verb) {
  auto* sub = verb.add_subcommand(
      "prepare",
      "Text to token file\n\nExamples:\n"
      "  stretto data prepare corpus.txt --tokenizer tokenizer.json -o corpus\n"
      "  stretto data prepare *.jsonl --tokenizer tokenizer.json -o train --threads 16\n"
      "  stretto data prepare corpus.txt -t tokenizer.json -o corpus.bin --format llmc");
  auto a = std::make_shared<PrepareArguments>();
  sub->add_option("inputs", a->inputs, "Text or JSON Lines (.jsonl) files")->required()->file();
  sub->add_option("-t,--tokenizer", a->tokenizer,
                  "tokenizer.json, vocab.json, a directory, or \"bytes\"")
      ->file()
      ->offers({"bytes"})
      ->required();
  sub->add_option("-o,--output", a->output, "Where: NAME.bin and NAME.idx")->required()->file();
  sub->add_option("--format", a->format, "megatron or llmc")
      ->offers({"megatron", "llmc"})
      ->capture_default_str();
  sub->add_option("--key", a->key, "Key of the text in JSON Lines [text]");
  sub->add_flag("--lines", a->line_documents, "Plain text: each line is a document");
  sub->add_option("--end-token", a->end_token, "Token after each document [<|endoftext|>]");
  sub->add_flag("--no-end-token", a->no_end, "Nothing after documents");
  sub->add_option("--threads", a->threads, "0: all cores")->capture_default_str()->between(0, 4096);
  sub->add_flag("--json", a->json, "The result as one JSON record");
  sub->callback([a] { prepare(*a); });
}

void add_info(Command& verb) {
  auto* sub = verb.add_subcommand("info",
                                  "What a token file holds\n\nExamples:\n"
                                  "  stretto data info corpus.bin --tokenizer tokenizer.json\n"
                                  "  stretto data info train.bin --format u16");
  auto a = std::make_shared<InfoArguments>();
  sub->add_option("path", a->path, "Token file")->required()->file();
  sub->add_option("-t,--tokenizer", a->tokenizer, "Shows samples as text")->file();
  sub->add_option("--format", a->format, "auto, megatron, llmc, u16 or bytes")
      ->offers(find_key("data.format")->words)
      ->capture_default_str();
  sub->add_option("--samples", a->samples, "How many samples")
      ->capture_default_str()
      ->between(0, 1000);
  sub->add_flag("--json", a->json, "One JSON record");
  sub->callback([a] { info(*a); });
}

}  // namespace

void add_data(Command& app) {
  Command* verb =
      app.add_subcommand("data",
                         "Makes and inspects token files\n\nExamples:\n"
                         "  stretto data prepare corpus.txt --tokenizer tokenizer.json -o corpus\n"
                         "  stretto data info corpus.bin --tokenizer tokenizer.json");
  verb->require_subcommand(1);
  add_prepare(*verb);
  add_info(*verb);
}

}  // namespace stretto::cli
