// Saves checkpoints beside training: a step waits for the copy to host memory only; a thread writes
// it, and the ranks agree on the outcome at later step boundaries.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "checkpoint/store.h"
#include "train/trainer.h"

namespace stretto {

// The directory of a run's checkpoints.
std::string checkpoint_root(const Config& config);

// What a save took, as this rank saw it; seconds.
struct SaveReport {
  int64_t step = 0;
  int64_t bytes = 0;   // of the files of all ranks
  double stall = 0;    // training waited
  double seconds = 0;  // from the beginning until the old checkpoints were gone
  WriteTimes times;    // of this rank's file
};

// One per rank. Every call but the destructor is collective over the trainer's world.
class CheckpointSaver {
 public:
  CheckpointSaver(Trainer& trainer, Fs& fs, int64_t saved_step);
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Saves the current step, unless it is saved. With checkpoint.async the writing goes on after the
  // return. A failure is a warning: training goes on, and the checkpoints before stay. The third in
  // a row throws io_error, but not in the `last` save of a run: require_saved() tries it again.
  void save(bool last = false);
  // At step boundaries: takes note of a save that has ended.
  void poll();
  // Waits for a save that is under way.
  void finish();
  // finish(). Where the current step is not saved then, up to `tries` more saves, each after
  // `pause` seconds; io_error when all of them failed, or a stop signal came meanwhile.
  void require_saved(int tries = 0, double pause = 0);

  // The save that ended since the last call, if any. Not collective.
  std::optional<SaveReport> take_report() { return std::exchange(report_, std::nullopt); }
  double stall_seconds() const { return stall_seconds_; }  // training waited for saves, so far
  int64_t saved_step() const { return saved_step_; }       // -1: none

 private:
  enum class Stage { idle, writing, committing };

  bool begin();
  void note_progress();  // by whoever writes
  void launch(std::function<void()> work);
  // Returns when the worker has ended; calls `moved` whenever it has moved on.
  void await_worker(const std::function<void()>& moved);
  void join();  // the worker, and notes its work in the trace
  void commit();
  void advance();                               // when no rank is at work any more
  void take_note(const std::exception& error);  // of this rank's part
  void note_failure();
  bool wait(double seconds);  // false: a stop signal came meanwhile
  bool first() const { return trainer_.world().rank() == 0; }

  Trainer& trainer_;
  CheckpointStore store_;
  Shard shard_;  // its buffer is kept from save to save
  Manifest manifest_;
  std::string temp_;
  int64_t bytes_ = 0;  // of the files of all ranks
  Stage stage_ = Stage::idle;
  const std::thread::id rank_ = std::this_thread::get_id();
  std::thread worker_;  // writes; where none can be started, the rank does
  std::atomic<bool> running_{false};
  std::atomic<uint64_t> progress_{0};     // goes up as the worker moves on and when it ends
  double work_start_ = 0, work_end_ = 0;  // clock_seconds() of the worker; read after joining it
  // Of this rank's part; written by the worker, read after joining it.
  std::string error_;
  std::string fix_;  // of the last error, as far as this rank knows
  SaveReport current_;
  std::optional<SaveReport> report_;
  int64_t saved_step_ = -1;
  int failures_ = 0;   // in a row
  bool last_ = false;  // the save under way is the last of its run
  double stall_seconds_ = 0;
};

}  // namespace stretto
