// What `train` says beside its steps: what begins, and what may not be as it should.
#pragma once

#include <string>

#include "config/config.h"
#include "machine/core_use.h"

namespace stretto::cli {

// "tiny: 842,496 parameters in fp32 on cpu, 3 ranks (dp 3), 19.01 MiB per rank; 8 sequences of 128
// random tokens a step". `bytes`: the memory plan of a rank.
std::string start_note(const Config& config, double bytes);

// That a run ends before its learning rate has risen to the top; empty: it does not.
std::string warmup_note(const TrainConfig& train);

// That ZeRO shards nothing; empty: it does, or is off.
std::string zero_note(const Config& config);

// That a file of documents is read as one text, JSON's brackets and quotes included; empty: it is
// not.
std::string json_note(const std::string& path, TokenFormat format);

// What the first Ctrl-C says at once; nullptr on ranks of a job that leave it to the first one.
const char* stop_note(bool saves);

// That others take cores which this run wants; empty: they do not.
std::string busy_note(const CoreUse& use);

}  // namespace stretto::cli
