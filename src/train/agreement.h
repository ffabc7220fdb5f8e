// Ranks that are processes each read their own command, configuration, files and program. Training
// that differs between them would go wrong in silence, or end in messages that do not fit each
// other, so what they have read is compared before anything else.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "config/config.h"
#include "train/run_data.h"

namespace stretto {

// Something that must be the same on all ranks.
struct Fact {
  std::string name;  // such as "train.lr"
  std::string value;
  std::string note = "";  // follows the value in messages and is not compared
};

// All keys except those that say how a machine does its share of the work (`threads`,
// `memory_limit`). Of keys that name files only whether they are set: a file may be called
// differently on another machine, and what is in it is compared elsewhere.
std::vector<Fact> config_facts(const Config& config);

// The tokens that are trained on and evaluated.
std::vector<Fact> data_facts(const RunData& data);

// Collective. Throws bad_config if any rank has other facts than rank 0, with the first fact that
// differs and the ranks and machines that have it. If all agree, which usually is so, only digests
// are sent.
void require_agreement(Comm& world, std::span<const Fact> facts);

}  // namespace stretto
