// The instruction sets our kernels are compiled for; include before any Highway header.
// SSSE3 and SSE4 are left out: no machine worth training on stops there, and each target costs
// compile time. Such a machine runs the portable fallback.
#pragma once

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#endif
