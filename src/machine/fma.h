// The upper limit of a core's arithmetic: fused multiply-adds on registers, in the widest
// instruction set of the processor (chosen at run time).
#pragma once

#include <cstdint>

namespace stretto {

// Does `rounds` rounds and returns the number of FLOPs. `sink` receives a value that depends on all
// of them, so that the compiler cannot leave any out.
double fma_rounds(int64_t rounds, float* sink);

const char* fma_target();  // Highway's name of the instruction set

}  // namespace stretto
