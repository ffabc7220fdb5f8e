// The command line as data: what completion and the manual pages say of it. command.cpp makes it of
// the definitions that also parse, so that neither can go stale.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace stretto::cli {

struct Candidate {
  std::string word, about;
};

enum class Files { none, any, directories };

// What may stand for an option's value; others may be right, too.
struct Values {
  Files files = Files::none;
  bool settings = false;                          // words of a configuration
  std::function<std::vector<Candidate>()> known;  // may be empty
};

struct OutlineOption {
  std::vector<std::string> names;  // "-n", "--ranks"; of a positional one its name alone
  bool positional = false, required = false;
  int most = 1;             // values; 0: a flag
  std::string placeholder;  // "INT", "FILE"
  std::string help, preset;
  Values values;
};

struct Outline {
  std::string name;
  std::string help;  // a line, then more
  std::vector<OutlineOption> options;
  std::vector<Outline> verbs;

  std::string first_line() const { return help.substr(0, help.find('\n')); }
};

}  // namespace stretto::cli
