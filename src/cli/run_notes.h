// Notes that `train` prints beside its steps: what begins, and what the user may not have intended.
// Functions return an empty text if there is nothing to say.
#pragma once

#include <string>

#include "config/config.h"
#include "machine/core_use.h"

namespace stretto::cli {

// Such as "tiny: 842,496 parameters in fp32 on cpu, 3 ranks (dp 3), 19.01 MiB per rank; 8 sequences
// of 128 random tokens a step". `bytes`: what the rank that needs most needs.
std::string start_note(const Config& config, double bytes);

// Says that the run ends during the warm-up of the learning rate.
std::string warmup_note(const TrainConfig& train);

// Says that ZeRO is on but has nothing to shard.
std::string zero_note(const Config& config);

// Says that a GPU will be idle for much of the time, and what to set. `config`: with the
// micro-batch that `auto` chose.
std::string idle_gpu_note(const Config& config);

// Says that a file of JSON documents is read as one text, brackets and quotes included.
// `as_text`: the words that would say that this is meant.
std::string json_note(const std::string& path, TokenFormat format, const char* as_text);

// What to print at once at the first Ctrl-C; nullptr on ranks that leave this to the first one.
const char* stop_note(bool saves);

// Says that other programs use cores which this run wants.
std::string busy_note(const CoreUse& use);

}  // namespace stretto::cli
