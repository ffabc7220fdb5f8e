// What this machine has and how fast it is, GPUs included: for `doctor` and for records.
#pragma once

#include <string>

#include "backend/backend.h"
#include "base/fs.h"
#include "machine/machine.h"

namespace stretto {

// probe_machine, and with `measure` also the rates of matrix products: of the CPU, in bf16 if it
// has units for it, and of each GPU that this program can use (a second or two each).
MachineInfo survey_machine(bool measure, const std::string& directory = ".");

// Gives back what this process has on each GPU, which processes that are measured next would find
// in use, but for GPU `own`. It may compute on no other afterwards (release_cuda_device).
void release_gpus(int own = -1);

// Warns if other programs took cores while the machine was measured, because predictions from it
// come out too slow.
void warn_if_disturbed(const MachineInfo& machine, const std::string& fix);

// The text of a file that `doctor --json` or a sweep wrote. Throws bad_data with the file's name if
// a record could not tell from it which device it describes, and how fast that is.
std::string read_machine_file(Fs& fs, const std::string& path);

// FLOP/s of a square product of `size` in the element type, best of a few tries of `products` each.
double measured_matmul_rate(Backend& backend, DType type, int64_t size, int products);

}  // namespace stretto
