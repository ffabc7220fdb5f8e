// stretto report: records become one page.
#include "bench/report.h"

#include <fmt/format.h>

#include "base/log.h"
#include "bench/tables.h"
#include "cli/keep_inputs.h"
#include "cli/verbs.h"

namespace stretto::cli {
namespace {

constexpr const char* kHelp =
    "Makes one self-contained report.html of records\n\n"
    "Examples:\n"
    "  stretto report runs/sweep                       writes runs/sweep/report.html\n"
    "  stretto report runs/sweep --out page.html       somewhere else\n"
    "  stretto report runs/first                       a training run: losses, evaluations, time\n"
    "  stretto report run.json                         one record; the page lies beside it\n";

struct Options {
  std::string directory, out, title = "Stretto: what was measured";
};

void report(const Options& options) {
  std::vector<RunRecord> records = load_records(posix_fs(), options.directory);
  const std::string home = results_directory(posix_fs(), options.directory);
  const std::string path = options.out.empty() ? join_path(home, "report.html") : options.out;
  keep_inputs("--out", path, {path}, {options.directory, join_path(home, "metrics.jsonl")});
  TrainingCurve curve;
  if (one_training_run(records)) curve = read_training_curve(posix_fs(), home, records);
  write_file_atomic(posix_fs(), path, report_page(records, options.title, random_nonce(), curve));
  fmt::print("{}\n", path);
}

}  // namespace

void add_report(Command& app) {
  Command* verb = app.add_subcommand("report", kHelp);
  auto options = std::make_shared<Options>();
  verb->add_option("directory", options->directory, "Where the records are, or one of them")
      ->required()
      ->file();
  verb->add_option("-o,--out", options->out, "File to write (DIR/report.html)")->file();
  verb->add_option("--title", options->title, "Heading of the page");
  verb->callback([options] { report(*options); });
}

}  // namespace stretto::cli
