// The measured ceiling that every rate is compared with.
#pragma once

namespace stretto {

// f32 GFLOP/s of independent fused multiply-adds in registers, on `threads` threads together: one
// run of a few milliseconds, and the best of ten.
double fma_gflops(int threads);
double fma_peak_gflops(int threads);

// With one thread the CPU time of the calling thread, which other processes disturb little; with
// more, the wall clock.
double bench_seconds(int threads);

}  // namespace stretto
