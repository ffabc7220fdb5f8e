// What this machine has and delivers, its GPUs included: what `doctor` prints and records keep.
#pragma once

#include <string>

#include "backend/backend.h"
#include "base/fs.h"
#include "machine/machine.h"

namespace stretto {

// probe_machine, and with `measure` also the matrix-product rate in bf16 of a CPU with units for
// it, and of each GPU that this program can use (under a second each).
MachineInfo survey_machine(bool measure, const std::string& directory = ".");

// The text of a file that `doctor --json` or a sweep wrote. Throws bad_data with the file's name
// where records could not say which device it describes, and how fast that is.
std::string read_machine_file(Fs& fs, const std::string& path);

// FLOP/s of one large square product of `size` in the element type, best of a few tries.
double measured_matmul_rate(Backend& backend, DType type, int64_t size);

}  // namespace stretto
