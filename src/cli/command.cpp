#include "cli/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/error.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/wrap.h"
#include "cli/candidates.h"
#include "cli/verbs.h"
#include "config/foreign_names.h"
#include "config/suggest.h"

namespace stretto::cli {
namespace {

CLI::App& app_of(void* native) { return *static_cast<CLI::App*>(native); }
CLI::Option& option_of(void* native) { return *static_cast<CLI::Option*>(native); }

constexpr const char* kNotEmpty = "TEXT";

CLI::Validator not_empty() {
  return CLI::Validator(
      [](const std::string& text) { return text.empty() ? "is empty" : std::string(); }, "",
      kNotEmpty);
}

// CLI11 would turn a number that is too large into the largest that fits.
CLI::Validator fits_int64() {
  return CLI::Validator(
      [](const std::string& text) {
        errno = 0;
        std::strtoll(text.c_str(), nullptr, 0);
        return errno == ERANGE ? fmt::format("{} is out of range", printable(text)) : std::string();
      },
      "");
}

// A verb's description is a line, then examples; lists of verbs show that line alone.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* verb, std::string name,
                        CLI::AppFormatMode mode) const override {
    return fit_page(Formatter::make_help(verb, std::move(name), mode), output_width(), 0);
  }

  std::string make_description(const CLI::App* verb) const override {
    std::string text = verb->get_description();
    text.erase(text.find_last_not_of('\n') + 1);
    // Lines of a paragraph become one, which is wrapped anew; examples are indented.
    for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; ++at) {
      const size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
      const char first = text[begin], next = text[at + 1];
      if (first != ' ' && first != '\n' && next != ' ' && next != '\n') text[at] = ' ';
    }
    return text + "\n\n";
  }

  std::string make_subcommand(const CLI::App* verb) const override {
    const std::string text = verb->get_description();
    std::stringstream out;
    constexpr size_t kNameColumn = 14;
    CLI::detail::format_help(out, verb->get_name(), text.substr(0, text.find('\n')), kNameColumn);
    return out.str();
  }
};

constexpr const char* kSettings = "config";  // the positional of add_settings()

// The verb that was being parsed when an error came up, such as "train" or "config show"; empty:
// none yet.
struct ReadVerb {
  const CLI::App* app;
  std::string words;
};
ReadVerb verb_of(const CLI::App& app) {
  ReadVerb verb{&app, ""};
  while (!verb.app->get_subcommands().empty()) {
    verb.app = verb.app->get_subcommands().front();
    verb.words += (verb.words.empty() ? "" : " ") + verb.app->get_name();
  }
  return verb;
}

// For --lr 3 or --tensor-model-parallel-size: an option of other programs for which we have a word
// of a configuration ("train.lr=...").
std::string setting_meant(const CLI::App& app, const CLI::App& verb) {
  if (verb.get_option_no_throw(kSettings) == nullptr) return "";
  for (const std::string& word : app.remaining(true)) {
    if (!word.starts_with("--")) continue;
    const std::string name = word.substr(2, word.find('=') - 2);
    if (const std::string key = key_called(name); !key.empty()) return key;
  }
  return "";
}

// The first word that looks like an option but is not one of the verb's; empty: there is none.
std::string unknown_option(const CLI::App& app) {
  for (const std::string& word : app.remaining(true)) {
    if (word.starts_with('-') && word != "--") return word.substr(0, word.find('='));
  }
  return "";
}

// The verb's own options and those of every verb. A group's options are not those of its verbs.
std::vector<std::string> options_of(const CLI::App& verb, const CLI::App& root) {
  std::vector<std::string> names;
  for (const CLI::App* app : {&verb, &root}) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

[[noreturn]] void refuse(const CLI::App& app, const CLI::ParseError& error) {
  const auto [read, verb] = verb_of(app);
  const std::string command = verb.empty() ? "stretto" : "stretto " + verb;
  const std::string option = unknown_option(app);
  std::string what = error.what();
  const auto is = [&](CLI::ExitCodes code) {
    return error.get_exit_code() == static_cast<int>(code);
  };
  if (!option.empty() && (is(CLI::ExitCodes::ExtrasError) || is(CLI::ExitCodes::RequiredError))) {
    what = "there is no option " + option;
  } else if (is(CLI::ExitCodes::ExtrasError)) {
    what = fmt::format("not expected: {}", fmt::join(app.remaining(true), " "));
  }
  const std::string help =
      fmt::format("`{} --help` shows its words, options and examples", command);
  const std::string key = setting_meant(app, *read);
  const std::string meant = key.empty() ? did_you_mean(option, options_of(*read, app), "")
                                        : fmt::format("write {}=VALUE;", key);
  throw Error(ExitCode::usage,
              fmt::format("{}{}", verb.empty() ? "" : verb + ": ", printable(what)),
              meant.empty() ? help : fmt::format("{} {}", meant, help));
}

// Checked before CLI11 parses, whose error would only say that a verb is missing.
void check_verbs(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  std::string group;  // "config ", "" at the top
  for (const std::string& word : words) {
    if (at->get_require_subcommand_min() == 0) return;
    if (word.starts_with('-')) continue;
    std::vector<std::string> known;
    for (const CLI::App* verb : at->get_subcommands({})) known.push_back(verb->get_name());
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      throw Error(
          ExitCode::usage, fmt::format("there is no verb '{}{}'", group, printable(word)),
          did_you_mean(word, known, fmt::format("`stretto {}--help` lists the verbs", group)));
    }
    at = at->get_subcommand(word);
    group += word + " ";
  }
}

}  // namespace

Option Option::required() {
  option_of(native_).required();
  return *this;
}

Option Option::capture_default_str() {
  option_of(native_).capture_default_str();
  return *this;
}

Option Option::expected(int least, int most) {
  option_of(native_).expected(least, most);
  return *this;
}

Option Option::between(double least, double most) {
  option_of(native_).check([=](const std::string& text) -> std::string {
    double value = 0;
    const bool number = CLI::detail::lexical_cast(text, value);
    if (number && value >= least && value <= most) return "";
    return fmt::format("{} is not between {:.15g} and {:.15g}", printable(text), least, most);
  });
  return *this;
}

Option Option::may_be_empty() {
  option_of(native_).get_validator(kNotEmpty)->active(false);
  return *this;
}

// Of a positional one help shows the name, which says it already.
Option Option::file() {
  values_->files = Files::any;
  if (!option_of(native_).get_positional()) option_of(native_).type_name("FILE");
  return *this;
}

Option Option::directory() {
  values_->files = Files::directories;
  if (!option_of(native_).get_positional()) option_of(native_).type_name("DIR");
  return *this;
}

Option Option::offers(std::vector<std::string> words) {
  return offers([words = std::move(words)] {
    std::vector<Candidate> candidates;
    for (const std::string& word : words) candidates.push_back({word, ""});
    return candidates;
  });
}

Option Option::offers(std::function<std::vector<Candidate>()> words) {
  values_->known = std::move(words);
  return *this;
}

Option Option::settings() {
  values_->settings = true;
  values_->files = Files::any;
  return *this;
}

Command::~Command() = default;

Command* Command::add_subcommand(const std::string& name, const std::string& help) {
  CLI::App* verb = app_of(native_).add_subcommand(name, help);
  children_.push_back(std::make_unique<Command>(verb));
  return children_.back().get();
}

void Command::require_subcommand(int count) { app_of(native_).require_subcommand(count); }

// An empty path or name usually comes from a shell variable that was not set.
#define STRETTO_TEXT_OPTION(Type)                                                             \
  Option Command::add_option(const std::string& name, Type& value, const std::string& help) { \
    return option(app_of(native_).add_option(name, value, help)->check(not_empty()));         \
  }
STRETTO_TEXT_OPTION(std::string)
STRETTO_TEXT_OPTION(std::optional<std::string>)
#undef STRETTO_TEXT_OPTION

#define STRETTO_OPTION(Type)                                                                  \
  Option Command::add_option(const std::string& name, Type& value, const std::string& help) { \
    return option(app_of(native_).add_option(name, value, help));                             \
  }
STRETTO_OPTION(std::vector<std::string>)
STRETTO_OPTION(int)
STRETTO_OPTION(size_t)
STRETTO_OPTION(double)
STRETTO_OPTION(std::optional<double>)
#undef STRETTO_OPTION

#define STRETTO_INTEGER_OPTION(Type)                                                          \
  Option Command::add_option(const std::string& name, Type& value, const std::string& help) { \
    return option(app_of(native_).add_option(name, value, help)->check(fits_int64()));        \
  }
STRETTO_INTEGER_OPTION(std::vector<int64_t>)
STRETTO_INTEGER_OPTION(int64_t)
STRETTO_INTEGER_OPTION(std::optional<int64_t>)
#undef STRETTO_INTEGER_OPTION

Option Command::add_flag(const std::string& name, bool& value, const std::string& help) {
  return option(app_of(native_).add_flag(name, value, help));
}

Option Command::add_settings(std::vector<std::string>& words) {
  return add_option(kSettings, words, "YAML files, dotted.key=value words, or a model name")
      ->settings();
}

std::vector<std::string> Command::given() const {
  std::vector<std::string> words;
  for (const CLI::Option* option : app_of(native_).get_options()) {
    if (option->count() == 0) continue;
    words.push_back(option->get_positional() ? option->results().front() : option->get_name());
  }
  return words;
}

void Command::callback(std::function<void()> run) { app_of(native_).callback(std::move(run)); }

Outline Command::outline() const {
  const CLI::App& app = app_of(native_);
  Outline out{app.get_name(), app.get_description(), {}, {}};
  for (const CLI::Option* native : app.get_options()) {
    if (native == app.get_help_ptr() && app.get_parent() != nullptr) continue;  // the root has it
    OutlineOption option;
    option.positional = native->get_positional();
    if (option.positional) option.names = {native->get_name(true)};
    for (const std::string& name : native->get_snames()) option.names.push_back("-" + name);
    for (const std::string& name : native->get_lnames()) option.names.push_back("--" + name);
    option.required = native->get_required();
    option.most = native->get_items_expected_max();
    option.placeholder = native->get_type_name();
    option.help = native->get_description();
    option.preset = native->get_default_str();
    if (const auto values = values_.find(native); values != values_.end()) {
      option.values = values->second;
    }
    out.options.push_back(std::move(option));
  }
  for (const auto& verb : children_) out.verbs.push_back(verb->outline());
  return out;
}

int parse_and_run(int argc, char** argv, const char* examples) {
  CLI::App app{examples, "stretto"};
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormatter>());  // verbs inherit it
  app.fallthrough();                                 // verbs also accept the options of the program
  Command root(&app);
  add_verbs(root);
  // Only for --help: below, the word is replaced by the verb `version`, which has options of its
  // own.
  bool version = false;
  app.add_flag("--version", version, "Short for: stretto version");
  bool quiet = false, verbose = false;
  app.add_flag("-q,--quiet", quiet, "Of any verb: warnings and errors alone on stderr");
  app.add_flag("-v,--verbose", verbose, "Of any verb: more messages on stderr");
  app.parse_complete_callback([&] {
    if (quiet || verbose) init_log(verbose ? LogLevel::verbose : LogLevel::quiet);
  });
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (words.empty()) words = {"--help"};
  if (words[0] == kComplete) {  // CLI11 must not see these words: they are another command's
    print_completion(root.outline(), {words.begin() + 1, words.end()});
    return 0;
  }
  if (words[0] == kShare && words.size() == 2) {
    write_share(root.outline(), words[1]);
    return 0;
  }
  const auto version_word = std::find(words.begin(), words.end(), "--version");
  const bool has_verb = std::any_of(words.begin(), version_word,
                                    [](const std::string& word) { return !word.starts_with('-'); });
  if (version_word != words.end() && !has_verb) *version_word = "version";
  check_verbs(app, words);
  std::reverse(words.begin(), words.end());  // CLI11 takes them off the back
  try {
    app.parse(std::move(words));
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) refuse(app, error);
    return app.exit(error);  // prints the help
  }
}

}  // namespace stretto::cli
