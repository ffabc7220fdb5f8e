// Before a run begins: can all ranks save?
#pragma once

#include <string>

#include "base/fs.h"
#include "comm/comm.h"

namespace stretto {

// Collective. Goes through what a save does with names, in `root`, the directory of a run's
// checkpoints: rank 0 makes a directory in it, every rank writes a file there. Then removes
// everything again. Throws, on all ranks, with the rank and the machine that cannot: bad_config if
// the directories of two machines are not the same, otherwise as the file system does. Only a full
// disk is no reason to stop, because it may have room when the first save comes.
void try_output(Comm& world, Fs& fs, const std::string& root);

}  // namespace stretto
