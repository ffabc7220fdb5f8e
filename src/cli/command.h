// A verb and its options. A thin face of CLI11, which only command.cpp includes: its headers cost
// ten seconds of compile time in every file that sees them.
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
  Option between(double least, double most);  // refuses other numbers, and what is none
  Option may_be_empty();                      // of text: else an empty one is refused

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

  // `help` leads with one line; examples follow it. Lists of verbs show the first line alone.
  Command* add_subcommand(const std::string& name, const std::string& help);
  void require_subcommand(int count);

  // "NAME" is positional, "-n,--ranks" is not. The variable keeps its value when not given.
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
  // The words of a configuration, positional.
  Option add_settings(std::vector<std::string>& words);

  // What of its own the command line has, as it is written there; of lists the first word. Not
  // before parsing.
  std::vector<std::string> given() const;

  // Runs after parsing, when the verb was named. Throws Error.
  void callback(std::function<void()> run);

  Outline outline() const;  // of this verb and all below it

 private:
  Option option(void* native) { return {native, values_[native]}; }

  void* native_;
  std::map<const void*, Values> values_;  // by option
  std::vector<std::unique_ptr<Command>> children_;
};

}  // namespace stretto::cli
