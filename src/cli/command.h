// A verb and its options: a thin layer over CLI11, which only command.cpp includes, because its
// headers add ten seconds to the compilation of every file that sees them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/outline.h"

namespace stretto::cli {

// Thrown by a verb that has printed its answer and ends with this code.
struct Answered {
  ExitCode code;
};

class Option {
 public:
  Option(void* native, Values& values) : native_(native), values_(&values) {}
  Option* operator->() { return this; }
  Option required();
  Option capture_default_str();               // help shows the default
  Option expected(int least, int most);       // how many values, for lists
  Option between(double least, double most);  // refuses other numbers, and words that are no number
  Option may_be_empty();                      // for text; otherwise an empty one is refused

  // What completion offers. Numbers and other text have nothing to offer.
  Option file();       // FILE in help; or a directory
  Option directory();  // DIR in help
  Option offers(std::vector<std::string> words);
  Option offers(std::function<std::vector<Candidate>()> words);
  Option settings();  // words of a configuration

 private:
  void* native_;
  Values* values_;
};

class Command {
 public:
  explicit Command(void* native) : native_(native) {}
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // The first line of `help` is a summary, examples follow it. Lists of verbs show only the
  // summary.
  Command* add_subcommand(const std::string& name, const std::string& help);
  void require_subcommand(int count);

  // "NAME" is positional, "-n,--ranks" is not. If the option is not given, the variable keeps its
  // value.
  Option add_option(const std::string& name, std::string& value, const std::string& help);
  Option add_option(const std::string& name, std::vector<std::string>& value,
                    const std::string& help);
  Option add_option(const std::string& name, std::vector<int64_t>& value, const std::string& help);
  Option add_option(const std::string& name, int& value, const std::string& help);
  Option add_option(const std::string& name, int64_t& value, const std::string& help);
  Option add_option(const std::string& name, size_t& value, const std::string& help);
  Option add_option(const std::string& name, double& value, const std::string& help);
  Option add_option(const std::string& name, std::optional<std::string>& value,
                    const std::string& help);
  Option add_option(const std::string& name, std::optional<int64_t>& value,
                    const std::string& help);
  Option add_option(const std::string& name, std::optional<double>& value, const std::string& help);
  Option add_flag(const std::string& name, bool& value, const std::string& help);
  // Positional words that make up a configuration.
  Option add_settings(std::vector<std::string>& words);

  // The verb's own options that were given, as on the command line; of a list only its first word.
  // To be called after parsing.
  std::vector<std::string> given() const;

  // Runs after parsing if the verb was named. May throw Error.
  void callback(std::function<void()> run);

  Outline outline() const;  // of this verb and all below it

 private:
  Option option(void* native) { return {native, values_[native]}; }

  void* native_;
  std::map<const void*, Values> values_;  // by option
  std::vector<std::unique_ptr<Command>> children_;
};

}  // namespace stretto::cli
