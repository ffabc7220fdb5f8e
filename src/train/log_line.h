// A training step as people and programs read it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "train/event_file.h"
#include "train/step_record.h"

namespace stretto {

// What a line on the console is about: the steps since the line before.
class LineMeans {
 public:
  void add(const StepRecord& record);
  // The last record with the mean loss, and the seconds and tokens of the mean step; begins anew.
  // The losses of skipped steps count only where all were skipped.
  StepRecord take();

 private:
  struct Losses {
    void add(double loss) { sum += loss, ++count; }
    double mean() const { return sum / static_cast<double>(count); }
    double sum = 0;
    int64_t count = 0;
  };
  StepRecord last_;
  Losses learned_, skipped_;
  double seconds_ = 0;
  int64_t timed_ = 0, tokens_ = 0;
  bool warm_ = false;
};

// `step 10/100 | loss 5.5412 | norm 1.23 | lr 6.0e-04 | 41.2k tok/s | ...`, with as many fields as
// fit into `width` columns.
std::string compact_line(const Config& config, const StepRecord& record, double eta_seconds,
                         size_t width);
std::string compact_evaluation(int64_t step, double loss);

// A line in the format of Megatron-DeepSpeed, so that existing parsers and dashboards work.
std::string megatron_line(const Config& config, const StepRecord& record);
std::string megatron_evaluation(int64_t step, double loss);

// One JSON object with all digits; NaN and infinity become null.
std::string json_line(const Config& config, const StepRecord& record);

std::string json_number(double value);

// The curves of TensorBoard. What Megatron-LM draws, too, has its tag and its unit.
std::vector<Scalar> step_scalars(const Config& config, const StepRecord& record);

// Model FLOP/s of a step (mpt convention) as a fraction of the device's peak; empty if the peak is
// unknown.
std::optional<double> mfu(const Config& config, const StepRecord& record);
// Model FLOP/s per rank of a step, recomputation left out (mpt convention) or counted (megatron).
double model_flops_per_rank(const Config& config, const StepRecord& record);
double megatron_flops_per_rank(const Config& config, const StepRecord& record);

}  // namespace stretto
