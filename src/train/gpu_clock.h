// Applies the configuration's gpu_clock to this rank's GPU: at most so many MHz, or `auto`, which
// looks for the best ceiling in the first steps.
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

// Throws Error(bad_config) for gpu_clock=auto, which would change the clock between steps that are
// to be compared.
void require_fixed_clock(const Config& config);

// Throws Error(bad_config) where a GPU of this name is a slice of a card (MIG): the clock is the
// whole card's, and others use the rest of it.
void require_own_clock(const std::string& gpu_name);

// Whether this is the first rank that uses its GPU. GPUs are told apart by PCI bus id and machine,
// because where a scheduler shows each rank only its own GPU, all of them have the same number.
// Collective over `world`.
bool first_of_its_gpu(Comm& world, const std::string& bus_id);

class GpuClock {
 public:
  // Collective over `world`. Where ranks share a GPU, the first one sets its clock. A fixed clock
  // that cannot be set throws; `auto` warns and leaves the clock alone. Both throw on a slice of a
  // card.
  GpuClock(const Config& config, Comm& world);
  // After every step; collective while `auto` is undecided.
  void after(const StepRecord& record);

 private:
  void set(int64_t mhz);

  Comm& world_;
  std::optional<ClockGovernor> governor_;  // only with `auto`
  std::unique_ptr<ClockLimit> limit_;      // none where another rank sets the clock, or nobody does
  bool refused_ = false;  // nvidia-smi refused: all ranks give up after the next step
};

}  // namespace stretto
