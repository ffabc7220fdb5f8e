// stretto checkpoint: what is saved, and whether it is undamaged.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/units.h"
#include "checkpoint/store.h"
#include "cli/verbs.h"

namespace stretto::cli {
namespace {

using nlohmann::json;

constexpr const char* kHelp =
    "Lists and verifies checkpoints\n\n"
    "Examples:\n"
    "  stretto checkpoint list runs/a             steps, sizes, layout that wrote them\n"
    "  stretto checkpoint verify runs/a           reads every byte of every checkpoint\n"
    "  stretto checkpoint verify runs/a/checkpoints/step-40\n";

struct Options {
  std::string path;
  bool json = false;
};

struct Row {
  int64_t step = 0;
  std::string path;
  std::string problem;           // empty: none
  ExitCode code = ExitCode::ok;  // of the problem; bad_data: it is damaged
  int64_t bytes = 0;
  size_t files = 0, tensors = 0;
  std::string layout, model;
  double seconds = 0;
};

std::string layout_of(const json& config) {
  const json parallel = config.value("parallel", json::object());
  return fmt::format("dp{} tp{} pp{}", parallel.value("dp", 1), parallel.value("tp", 1),
                     parallel.value("pp", 1));
}

Row examine(const CheckpointStore& store, int64_t step, bool verify) {
  const double start = clock_seconds();
  Row row;
  row.step = step;
  row.path = store.path_of(step);
  try {
    const Checkpoint checkpoint = store.open(step);
    row.bytes = checkpoint.manifest().bytes();
    row.files = checkpoint.manifest().files.size();
    row.tensors = checkpoint.tensors().size();
    const json config = json::parse(checkpoint.manifest().config);
    row.layout = layout_of(config);
    row.model = config.value("model", json::object()).value("name", "");
    if (verify) checkpoint.verify();
  } catch (const Error& error) {
    row.problem = error.what();
    row.code = may_be_whole(error) ? error.code() : ExitCode::bad_data;
  }
  row.seconds = clock_seconds() - start;
  return row;
}

void print_json(const std::vector<Row>& rows) {
  json out = json::array();
  for (const Row& row : rows) {
    out.push_back({{"step", row.step},
                   {"path", row.path},
                   {"ok", row.problem.empty()},
                   {"problem", row.problem},
                   {"bytes", row.bytes},
                   {"files", row.files},
                   {"tensors", row.tensors},
                   {"layout", row.layout},
                   {"model", row.model}});
  }
  cli::print_json(out);
}

void print_text(const std::vector<Row>& rows, bool verify) {
  for (const Row& row : rows) {
    if (!row.problem.empty()) {
      fmt::print("{}", for_stdout(fmt::format(
                           "{:<10} {}: {}\n", step_name(row.step),
                           row.code == ExitCode::bad_data ? "damaged" : "not read", row.problem)));
      continue;
    }
    fmt::print(
        "{}",
        for_stdout(fmt::format(
            "{:<10} {:>10}  {}, {} tensors, {}, {}{}\n", step_name(row.step),
            format_bytes(static_cast<double>(row.bytes)),
            counted(static_cast<int64_t>(row.files), "file"), row.tensors, row.model, row.layout,
            verify ? fmt::format(", verified in {}", format_seconds(row.seconds)) : "")));
  }
}

void run(const Options& options, bool verify) {
  std::optional<int64_t> only;
  const CheckpointStore store = store_at(posix_fs(), options.path, only);
  std::vector<Row> rows;
  ExitCode code = ExitCode::ok;  // a damaged one counts more than one that could not be read
  const std::vector<int64_t> steps = only ? std::vector<int64_t>{*only} : store.steps();
  for (const int64_t step : steps) {
    rows.push_back(examine(store, step, verify));
    if (code != ExitCode::bad_data && !rows.back().problem.empty()) code = rows.back().code;
  }
  if (options.json) {
    print_json(rows);
  } else {
    print_text(rows, verify);
  }
  if (verify && code != ExitCode::ok) throw Answered{code};
}

}  // namespace

void add_checkpoint(Command& app) {
  Command* verb = app.add_subcommand("checkpoint", kHelp);
  verb->require_subcommand(1);
  for (const bool verify : {false, true}) {
    Command* sub = verb->add_subcommand(
        verify ? "verify" : "list",
        verify
            ? "Reads every byte and compares digests; 65 when something is damaged, 77 when it may "
              "not be read\n\n"
              "Examples:\n"
              "  stretto checkpoint verify runs/a           every checkpoint of a run\n"
              "  stretto checkpoint verify runs/a/checkpoints/step-40\n"
            : "Shows the checkpoints of a run\n\n"
              "Examples:\n"
              "  stretto checkpoint list runs/a             steps, sizes, layout that wrote them\n"
              "  stretto checkpoint list runs/a --json\n");
    auto options = std::make_shared<Options>();
    sub->add_option("DIR", options->path, "a run, its checkpoints/, or one step-N")
        ->required()
        ->directory();
    sub->add_flag("--json", options->json, "machine-readable");
    sub->callback([options, verify] { run(*options, verify); });
  }
}

}  // namespace stretto::cli
