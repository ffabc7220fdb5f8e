// The arithmetic ceiling of a core: fused multiply-adds on registers, in the widest instruction set
// that the processor has (chosen at run time).
#pragma once

#include <cstdint>

namespace stretto {

// Runs `rounds` rounds and returns the FLOPs done. `sink` receives a value that depends on all of
// them, so that nothing can be left out.
double fma_rounds(int64_t rounds, float* sink);

const char* fma_target();  // Highway's name of the instruction set

}  // namespace stretto
