#include "cli/man_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "bench/build_info.h"
#include "cli/key_text.h"

namespace stretto::cli {
namespace {

// Text as roff prints it: `code` is bold.
std::string roff(const std::string& text) {
  std::string out;
  bool code = false;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '`') {
      out += std::exchange(code, !code) ? "\\fR" : "\\fB";
    } else {
      out += c;
    }
  }
  return out;
}

// A paragraph in short lines, none of which reads as a request.
std::string filled(const std::string& text) {
  constexpr size_t kWidth = 80;
  std::string out, line;
  const auto flush = [&] {
    out += (line.starts_with('.') || line.starts_with('\'') ? "\\&" : "") + line + "\n";
    line.clear();
  };
  std::istringstream words(roff(text));
  for (std::string word; words >> word;) {
    if (!line.empty() && line.size() + 1 + word.size() > kWidth) flush();
    line += (line.empty() ? "" : " ") + word;
  }
  if (!line.empty()) flush();
  return out.empty() ? "\\&\n" : out;
}

std::string bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + roff(text) + "\\fR"; }

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string page_name(const std::string& verb) { return "stretto-" + verb; }
std::string reference_to(const std::string& name, int section) {
  return fmt::format("{}({})", bold(name), section);
}

std::string header(const std::string& name, int section, const std::string& about) {
  return fmt::format(
             ".\\\" Written by stretto itself.\n"
             ".TH {} {} \"{}\" \"Stretto {}\" \"Stretto Manual\"\n.SH NAME\n",
             upper(name), section, source_date(), build_info().version) +
         filled(name + " - " + about);
}

std::string term(const std::string& head, const std::string& text) {
  return ".TP\n" + head + "\n" + filled(text);
}

std::string value_name(const OutlineOption& option) {
  const std::string name = option.positional ? upper(option.names[0]) : option.placeholder;
  return italic(name) + (option.most > 1 ? "..." : "");
}

std::string options_text(const Outline& verb) {
  std::string text;
  for (const bool positional : {true, false}) {
    for (const OutlineOption& option : verb.options) {
      if (option.positional != positional) continue;
      std::string head;
      if (!positional) {
        for (const std::string& name : option.names)
          head += (head.empty() ? "" : ", ") + bold(name);
      }
      if (option.most > 0) head += (head.empty() ? "" : " ") + value_name(option);
      const bool preset = !option.preset.empty() && option.preset != "[]";
      text += term(head, option.help + (preset ? " [" + option.preset + "]" : ""));
    }
  }
  return text;
}

// "stretto plan [OPTION]... [MODEL]...", and "stretto plan VERB" where verbs are below it.
std::string synopsis(const Outline& verb, const std::string& command) {
  std::string words, lines;
  for (const OutlineOption& option : verb.options) {
    if (!option.positional) continue;
    words += option.required ? " " + value_name(option) : " [" + value_name(option) + "]";
  }
  const bool options = std::any_of(verb.options.begin(), verb.options.end(),
                                   [](const OutlineOption& option) { return !option.positional; });
  if (verb.verbs.empty() || !words.empty()) {
    lines = bold(command) + (options ? " [" + italic("OPTION") + "]..." : "") + words + "\n";
  }
  if (!verb.verbs.empty()) {
    lines += (lines.empty() ? "" : ".br\n") + bold(command) + " " + italic("VERB") + " ...\n";
  }
  return lines;
}

// What help says below its first line, in two parts: what stands before the examples, and from
// there.
struct Body {
  std::string prose, examples;
};

// Reads help line by line: "  command   remark", deeper lines that continue it, and prose.
class BodyReader {
 public:
  Body read(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) take(line);
    flush();
    return std::move(body_);
  }

 private:
  void take(const std::string& line) {
    const size_t indent = line.find_first_not_of(' ');
    if (indent == std::string::npos || line == "Examples:") {
      flush();
      in_examples_ = in_examples_ || indent != std::string::npos;
    } else if (indent == 0) {
      if (!command_.empty()) flush();
      prose_ += line + " ";
    } else if (indent == 2) {
      flush();
      const size_t gap = line.find("  ", indent);
      command_ = line.substr(indent, gap - indent);
      if (gap != std::string::npos) remark_ = line.substr(gap);
    } else if (command_.ends_with('\\')) {
      command_.back() = ' ';
      command_ += line.substr(indent);
    } else {
      remark_ += line.substr(indent - 1);
    }
  }

  void flush() {
    if (!command_.empty()) body_.examples += term(bold(one_space(command_)), remark_);
    std::string& part = in_examples_ ? body_.examples : body_.prose;
    if (!prose_.empty()) part += (part.empty() ? "" : ".PP\n") + filled(prose_);
    command_.clear();
    remark_.clear();
    prose_.clear();
  }

  static std::string one_space(std::string text) {
    for (size_t at; (at = text.find("  ")) != std::string::npos;) text.erase(at, 1);
    return text;
  }

  Body body_;
  std::string command_, remark_, prose_;
  bool in_examples_ = false;
};

Body body_of(const Outline& verb) {
  return BodyReader().read(verb.help.substr(std::min(verb.help.find('\n'), verb.help.size())));
}

bool takes_settings(const Outline& verb) {
  return std::ranges::any_of(verb.options, [](const auto& o) { return o.values.settings; }) ||
         std::ranges::any_of(verb.verbs, takes_settings);
}

std::string verb_page(const Outline& verb) {
  const std::string command = "stretto " + verb.name;
  const Body body = body_of(verb);
  std::string text = header(page_name(verb.name), 1, verb.first_line());
  text += ".SH SYNOPSIS\n" + synopsis(verb, command);
  if (!body.prose.empty()) text += ".SH DESCRIPTION\n" + body.prose;
  if (const std::string options = options_text(verb); !options.empty()) {
    text += ".SH OPTIONS\n" + options;
  }
  if (!verb.verbs.empty()) text += ".SH VERBS\n";
  for (const Outline& below : verb.verbs) {
    const Body more = body_of(below);
    text +=
        fmt::format(".SS {}\n{}.PP\n{}", roff(command + " " + below.name),
                    synopsis(below, command + " " + below.name), filled(below.first_line() + "."));
    text += (more.prose.empty() ? "" : ".PP\n" + more.prose) + options_text(below);
    if (!more.examples.empty()) text += ".PP\nExamples:\n" + more.examples;
  }
  if (!body.examples.empty()) text += ".SH EXAMPLES\n" + body.examples;
  text += ".SH SEE ALSO\n" + reference_to("stretto", 1) +
          ", of options that all verbs have and exit codes";
  if (takes_settings(verb)) text += ",\n" + reference_to("stretto-config", 5);
  return text + "\n";
}

constexpr std::pair<ExitCode, const char*> kExitCodes[] = {
    {ExitCode::ok, "done"},
    {ExitCode::regression, "the answer is no: slower, not the same, not reproduced"},
    {ExitCode::usage, "wrong command line"},
    {ExitCode::bad_data, "corrupt or malformed input"},
    {ExitCode::no_input, "input missing"},
    {ExitCode::internal, "a bug in Stretto"},
    {ExitCode::os_error, "the system refused"},
    {ExitCode::cannot_create, "output cannot be created"},
    {ExitCode::io_error, "disk full, or reading or writing failed"},
    {ExitCode::resumable, "stopped early; the same command goes on"},
    {ExitCode::no_permission, "not permitted"},
    {ExitCode::bad_config, "the configuration breaks a rule"},
    {ExitCode::diverged, "too many steps without a finite loss"},
    {ExitCode::out_of_memory, "out of memory"},
    {ExitCode::peer_lost, "a rank died or hangs; the same command goes on"},
};

std::string main_page(const Outline& root) {
  const Body body = BodyReader().read(root.help);  // prose from its first line on
  std::string text = header("stretto", 1, "train, measure and plan GPT language models");
  text += ".SH SYNOPSIS\n" + bold("stretto") + " " + italic("VERB") + " ...\n.SH DESCRIPTION\n" +
          body.prose;
  text += ".SH VERBS\n";
  for (const Outline& verb : root.verbs) {
    text += term(reference_to(page_name(verb.name), 1), verb.first_line());
  }
  text += ".SH OPTIONS\n" + options_text(root) + ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : kExitCodes) {
    text += term(bold(std::to_string(static_cast<int>(code))), meaning);
  }
  text += ".SH EXAMPLES\n" + body.examples;
  return text + ".SH SEE ALSO\n" + reference_to("stretto-config", 5) + "\n";
}

std::string keys_page() {
  std::string text = header("stretto-config", 5, "what a configuration of Stretto sets");
  text +=
      ".SH DESCRIPTION\n"
      "A configuration is YAML files, later ones over earlier ones, the name of a model\n"
      "(" +
      bold("stretto models") + "), and " + bold("key=value") +
      " words, which beat both.\n"
      "In files the parts of a key are nested; on the command line dots join them.\n"
      ".SH KEYS\n";
  for (const Key& key : config_keys()) {
    const std::string preset = default_of(key);
    const std::string of_it = preset.empty()
                                  ? fmt::format("[{}]", values_of(key))
                                  : fmt::format("[{}; default {}]", values_of(key), preset);
    text += term(bold(key.name), fmt::format("{} {}", key.doc, of_it));
  }
  return text + ".SH SEE ALSO\n" + reference_to("stretto-config", 1) + ",\n" +
         reference_to("stretto-models", 1) + "\n";
}

}  // namespace

std::vector<ManPage> man_pages(const Outline& root) {
  std::vector<ManPage> pages = {{"stretto.1", main_page(root)}, {"stretto-config.5", keys_page()}};
  for (const Outline& verb : root.verbs) {
    pages.push_back({page_name(verb.name) + ".1", verb_page(verb)});
  }
  return pages;
}

}  // namespace stretto::cli
