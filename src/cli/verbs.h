// Each verb lives in one file of this folder and adds itself to the program here.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cli/command.h"

namespace stretto::cli {

// A verb sets its options on a new subcommand and runs from its callback. Verbs throw Error.
void add_bench(Command& app);
void add_checkpoint(Command& app);
void add_collect(Command& app);
void add_compare(Command& app);
void add_completion(Command& app);
void add_config(Command& app);
void add_data(Command& app);
void add_doctor(Command& app);
void add_eval(Command& app);
void add_exchange(Command& app);  // export and import
void add_flops(Command& app);
void add_generate(Command& app);
void add_models(Command& app);
void add_plan(Command& app);
void add_reference(Command& app);
void add_report(Command& app);
void add_slurm(Command& app);
void add_sweep(Command& app);
void add_tokenizer(Command& app);
void add_train(Command& app);
void add_tune(Command& app);
void add_verify(Command& app);
void add_version(Command& app);

void add_verbs(Command& app);

// Prints one JSON value on stdout. File names may contain any bytes: those that are not UTF-8 are
// replaced.
void print_json(const nlohmann::json& value, int indent = 2);

// What an installation puts below share/: completion scripts and manual pages. `stretto __share
// DIR` writes them.
constexpr const char* kShare = "__share";
void write_share(const Outline& root, const std::string& share);

// Parses the words and runs the verb they name. Errors of the verb pass through.
int parse_and_run(int argc, char** argv, const char* examples);

// The whole program: parse, run, report errors, return the exit code.
int run(int argc, char** argv);

}  // namespace stretto::cli
