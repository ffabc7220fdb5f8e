// The instruction sets for which our kernels are compiled; include it before any Highway header.
// SSSE3 and SSE4 are left out: each target costs compile time, and a machine without AVX2 is too
// slow for training anyway. It runs the portable fallback.
#pragma once

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#endif
