#include "bench/predict.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "plan/search.h"

namespace stretto {
namespace {

// Bytes/s of one rank: the machine's memory bandwidth in the share that its matrix products have.
double rank_bandwidth(const RunRecord& record) {
  const nlohmann::json machine = nlohmann::json::parse(record.machine, nullptr, false);
  const auto rate = [&](const char* path) {
    const nlohmann::json::json_pointer at(path);
    return machine.is_object() && machine.contains(at) && machine[at].is_number()
               ? machine[at].get<double>()
               : 0.0;
  };
  const double all = rate("/measured/gemm_flops");
  return all > 0 ? rate("/measured/triad_bytes_per_second") * record.gemm_peak / all : 0;
}

plan::Layout layout_of(const Config& config) {
  const ParallelConfig& p = config.parallel;
  plan::Layout l;
  l.dp = p.dp;
  l.tp = p.tp;
  l.pp = p.pp;
  l.interleave = p.interleave;
  l.schedule = p.interleave > 1 ? PipelineSchedule::interleaved : p.schedule;
  l.micro_batch = config.micro_batch;
  l.zero = p.dp > 1 ? p.zero : 0;
  l.recompute = config.activation_checkpointing;
  l.sequence_parallel = p.sequence_parallel && p.tp > 1;
  return l;
}

}  // namespace

void predict_time(RunRecord& record) {
  const Config& c = record.config;
  const double bandwidth = rank_bandwidth(record);
  const bool by_hand = !c.parallel.partition.empty() && c.parallel.partition.front() == '[';
  if (c.device != Device::cpu || record.peak <= 0 || bandwidth <= 0 || by_hand) return;
  plan::Cluster cluster = plan::find_cluster("local");
  cluster.matrix_flops = cluster.vector_flops = record.peak;
  cluster.memory_bandwidth = bandwidth;
  cluster.devices_per_node = record.devices();
  const plan::Stack stack = plan::find_stack("stretto", cluster);
  plan::Workload work;
  work.model = c.model;
  work.seq_len = c.seq_len > 0 ? c.seq_len : c.model.positions;
  work.global_batch = c.global_batch;
  work.precision = c.precision;
  const plan::Candidate priced = plan::price(cluster, stack, work, layout_of(c));
  const double seconds = priced.estimate.seconds;
  if (!std::isfinite(seconds) || seconds <= 0) return;
  record.predicted = {seconds, std::max(0.0, priced.low), priced.high};
}

}  // namespace stretto
