// A record as a finished bench leaves it, without running one.
#pragma once

#include "bench/record.h"

namespace stretto {

inline RunRecord sample_record() {
  RunRecord r;
  r.label = "sample";
  r.command = {"stretto", "bench", "tiny"};
  r.launcher = "threads";
  r.config.model = {"tiny", 4, 128, 4, 256, 128, 512};
  r.config.seq_len = 128;
  r.config.micro_batch = 4;
  r.config.global_batch = 8;
  r.build = build_info();
  r.machine = R"({"host":"here"})";
  r.device = "A processor";
  r.peak = 1e11;
  r.gemm_peak = 8e10;
  r.peak_source = "measured";
  r.started = "2026-04-01T12:00:00Z";
  r.wall_seconds = 2;
  r.steps.push_back({0.5, 5.6, false});
  for (int i = 0; i < 12; ++i) r.steps.push_back({0.1 + 0.001 * (i % 5), 5.5 - 0.01 * i, false});
  r.warmup = 1;
  r.parts = {0.05, 0.01, 0.01, 0.005, 0.001, 0.01, 0, 0, 0.001, 0.015};
  r.memory = {1000, 1000, 5000, 3000, 1, 1 << 20, {400, 300, 200, 50, 25, 15, 10}};
  return r;
}

}  // namespace stretto
