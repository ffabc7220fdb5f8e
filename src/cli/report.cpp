// stretto report: records become one page.
#include "bench/report.h"

#include <fmt/format.h>

#include "base/log.h"
#include "bench/tables.h"
#include "cli/verbs.h"

namespace stretto::cli {
namespace {

constexpr const char* kHelp =
    "Makes one self-contained report.html of the records in a directory\n\n"
    "Examples:\n"
    "  stretto report runs/sweep                       writes runs/sweep/report.html\n"
    "  stretto report runs/sweep --out page.html       somewhere else\n";

struct Options {
  std::string directory, out, title = "Stretto: what was measured";
};

void report(const Options& options) {
  std::vector<RunRecord> records;
  for (FoundRecord& found : find_records(posix_fs(), options.directory)) {
    records.push_back(std::move(found.record));
  }
  if (records.empty()) {
    throw Error(ExitCode::no_input,
                fmt::format("{} holds no records", printable(options.directory)),
                "run `stretto sweep SPEC --run` or `stretto bench CONFIG --out FILE` first");
  }
  const std::string path =
      options.out.empty() ? join_path(options.directory, "report.html") : options.out;
  records = without_repeats(std::move(records));
  write_file_atomic(posix_fs(), path, report_page(records, options.title, random_nonce()));
  fmt::print("{}\n", path);
}

}  // namespace

void add_report(Command& app) {
  Command* verb = app.add_subcommand("report", kHelp);
  auto options = std::make_shared<Options>();
  verb->add_option("directory", options->directory, "Where the records are")->required();
  verb->add_option("--out", options->out, "File to write (DIR/report.html)");
  verb->add_option("--title", options->title, "Heading of the page");
  verb->callback([options] { report(*options); });
}

}  // namespace stretto::cli
