// The clock of this rank's GPU as gpu_clock asks for it: at most so many MHz, or found out.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "comm/comm.h"
#include "config/config.h"
#include "train/clock_governor.h"
#include "train/clock_limit.h"
#include "train/step_record.h"

namespace stretto {

// Throws Error (bad_config) for `auto`, which would change the clock between steps that are
// compared.
void require_fixed_clock(const Config& config);

// Whether no rank before this one has the same GPU, by its PCI bus id and machine: where a
// scheduler shows each rank its own GPU only, all of them have the same number. Collective over
// `world`.
bool first_of_its_gpu(Comm& world, const std::string& bus_id);

class GpuClock {
 public:
  // Collective over `world`. Of ranks that share a GPU the first sets its clock. A number that
  // cannot be set throws; `auto` warns, and leaves the clock alone.
  GpuClock(const Config& config, Comm& world);
  // After every step; collective while `auto` is undecided.
  void after(const StepRecord& record);

 private:
  void set(int64_t mhz);

  Comm& world_;
  std::optional<ClockGovernor> governor_;  // of `auto`
  std::unique_ptr<ClockLimit> limit_;      // none where the clock is another rank's, or nobody's
  bool refused_ = false;                   // by nvidia-smi: all ranks give up after the next step
};

}  // namespace stretto
