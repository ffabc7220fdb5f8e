// Shared by the planner's tests: the clusters and shapes they talk about.
#pragma once

#include <string>

#include "plan/cost.h"
#include "plan/memory.h"
#include "plan/search.h"

namespace stretto::plan {

inline ModelShape shape(int64_t layers, int64_t hidden, int64_t heads, int64_t vocab) {
  ModelShape m;
  m.name = "test";
  m.layers = layers;
  m.hidden = hidden;
  m.heads = heads;
  m.vocab = vocab;
  m.positions = 2048;
  m.ffn = 4 * hidden;
  return m;
}

struct Place {
  Cluster cluster;
  Stack stack;
};

inline Place place(const std::string& cluster, const std::string& stack) {
  Place p;
  p.cluster = find_cluster(cluster);
  p.stack = find_stack(stack, p.cluster);
  return p;
}

inline Place bloom_place() { return place("jean-zay-a100", "megatron-deepspeed-2022"); }

inline Workload bloom_work(int64_t layers, int64_t hidden, int64_t heads) {
  return {shape(layers, hidden, heads, 250880), 2048, 2048, Precision::amp_fp16};
}

inline Layout bloom_layout(int64_t dp, int64_t tp, int64_t pp, int64_t micro_batch) {
  Layout l;
  l.dp = dp;
  l.tp = tp;
  l.pp = pp;
  l.micro_batch = micro_batch;
  l.zero = 1;
  l.recompute = Checkpointing::full;
  return l;
}

inline double seconds(const Place& p, const Workload& w, const Layout& l) {
  return estimate(p.cluster, p.stack, w, l).seconds;
}

}  // namespace stretto::plan
