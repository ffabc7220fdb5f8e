#include "train/gpu_clock.h"

#include <gtest/gtest.h>

#include <array>

#include "base/error.h"
#include "comm/threads.h"

namespace stretto {
namespace {

// Ranks 0 and 2 share a GPU, as do 1 and 3; rank 4 has its own.
TEST(GpuClock, OneRankSetsTheClockOfEachGpu) {
  const std::array<const char*, 5> gpus = {"01:00.0", "02:00.0", "01:00.0", "02:00.0", "03:00.0"};
  std::array<bool, 5> first{};
  run_thread_ranks(5, [&](Comm& world) {
    const auto rank = static_cast<size_t>(world.rank());
    first[rank] = first_of_its_gpu(world, gpus[rank]);
  });
  EXPECT_EQ(first, (std::array<bool, 5>{true, true, false, false, true}));
}

// A slice has no clock of its own: a ceiling would slow down whoever uses the rest of the card.
TEST(GpuClock, ASliceOfACardHasNone) {
  EXPECT_NO_THROW(require_own_clock("NVIDIA H200"));
  EXPECT_NO_THROW(require_own_clock(""));
  try {
    require_own_clock("NVIDIA H200 MIG 1g.18gb");
    FAIL() << "would set the clock of the whole card";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_config);
    EXPECT_NE(std::string(error.what()).find("NVIDIA H200 MIG 1g.18gb"), std::string::npos);
    EXPECT_NE(error.hint().find("gpu_clock=0"), std::string::npos) << error.hint();
  }
}

}  // namespace
}  // namespace stretto
