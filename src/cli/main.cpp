// Parses the command line and runs one verb. The only place, beside the rank runner, that catches.
#include <fmt/format.h>

#include <exception>
#include <memory>
#include <new>
#include <sstream>

#include "base/error.h"
#include "base/log.h"
#include "cli/verbs.h"

namespace stretto::cli {
namespace {

constexpr const char* kExamples =
    "Stretto trains GPT language models, measures what the hardware delivers, and plans the\n"
    "fastest topology.\n\n"
    "Examples:\n"
    "  stretto doctor                            what this machine has and delivers\n"
    "  stretto flops mpt-125m                    parameters, FLOPs and memory of a model\n"
    "  stretto reference check                   recompute every published figure\n"
    "  stretto version                           what this program was built from\n";

// A verb's description holds its examples; lists of verbs show its summary alone: the first line
// that is neither indented nor the word "Examples:".
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_subcommand(const CLI::App* verb) const override {
    std::istringstream lines(verb->get_description());
    std::string line;
    while (std::getline(lines, line)) {
      if (!line.empty() && line[0] != ' ' && line != "Examples:") break;
    }
    std::stringstream out;
    CLI::detail::format_help(out, verb->get_name(), line, column_width_);
    return out.str();
  }
};

int report(const Error& error) {
  fmt::print(stderr, "stretto: {}\n", error.what());
  if (!error.hint().empty()) fmt::print(stderr, "  fix: {}\n", error.hint());
  return static_cast<int>(error.code());
}

}  // namespace

int run(int argc, char** argv) {
  init_log(LogLevel::normal);
  CLI::App app{kExamples, "stretto"};
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormatter>());  // verbs inherit it
  add_verbs(app);
  try {
    app.parse(argc, argv);
    return static_cast<int>(ExitCode::ok);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);  // prints help or the message
    return code == 0 ? 0 : static_cast<int>(ExitCode::usage);
  } catch (const Error& error) {
    return report(error);
  } catch (const std::bad_alloc&) {
    return report({ExitCode::out_of_memory, "out of memory", "use a smaller batch or model"});
  } catch (const std::exception& error) {
    return report({ExitCode::internal, error.what(), "this is a bug in Stretto; please report it"});
  }
}

}  // namespace stretto::cli
