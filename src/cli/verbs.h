// Each verb lives in one file of this folder and adds itself to the program here.
#pragma once

#include <CLI/CLI.hpp>

namespace stretto::cli {

// A verb sets its options on a new subcommand and runs from its callback. Verbs throw Error.
void add_doctor(CLI::App& app);
void add_flops(CLI::App& app);
void add_reference(CLI::App& app);
void add_config(CLI::App& app);
void add_models(CLI::App& app);
void add_train(CLI::App& app);
void add_version(CLI::App& app);

void add_verbs(CLI::App& app);

// The whole program: parse, run, report errors, return the exit code.
int run(int argc, char** argv);

}  // namespace stretto::cli
