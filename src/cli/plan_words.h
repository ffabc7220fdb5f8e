// What the words and options of `stretto plan` ask the planner, and which of them it does not take.
#pragma once

#include "cli/plan_options.h"
#include "config/reader.h"
#include "plan/search.h"

namespace stretto::cli {

// A name of the registry, or files and words as `stretto train` reads them.
ResolvedConfig read_words(const PlanOptions& options);

// Options that were not given come from the words or files, then from the machine: a CPU computes
// in fp32 with one rank per core.
PlanOptions with_defaults(PlanOptions options, const ResolvedConfig& words,
                          const plan::Cluster& cluster);

// These need the options with their defaults.
plan::Workload workload_of(const PlanOptions& options, const Config& words,
                           const plan::Cluster& cluster);
plan::Constraints constraints_of(const PlanOptions& options);

// Says which words are not taken, since they are what is planned, and the option that keeps each.
// In files they are what a run had before.
void note_replaced_words(const PlanOptions& options, const Config& words);

// Checks the settings that the words make for our own runtime.
void check_runtime_options(const plan::Workload& work, const Config& words,
                           const plan::Cluster& cluster, const plan::Stack& stack);

}  // namespace stretto::cli
