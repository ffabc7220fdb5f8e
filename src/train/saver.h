// Saves checkpoints while training goes on. A step waits only until its state has been copied to
// host memory; a thread writes the copy, and at later steps the ranks agree on the outcome.
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

// What a save took, as this rank saw it. Times are in seconds.
struct SaveReport {
  int64_t step = 0;
  int64_t bytes = 0;   // of the files of all ranks
  double stall = 0;    // time for which training waited
  double seconds = 0;  // from its start until old checkpoints were removed
  WriteTimes times;    // of this rank's file
};

// One per rank. Every call but the destructor is collective over the trainer's world.
class CheckpointSaver {
 public:
  CheckpointSaver(Trainer& trainer, Fs& fs, int64_t saved_step);
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Saves the current step unless it is saved already. With checkpoint.async, writing continues
  // after the return. A failed save is only a warning: training goes on, and earlier checkpoints
  // stay. The third failure in a row throws io_error, except in the `last` save of a run, which
  // require_saved() repeats.
  void save(bool last = false);
  // To be called between steps: finishes a save whose writing has ended.
  void poll();
  // Waits for a save that is under way.
  void finish();
  // finish(). If the current step is not saved then, tries again up to `tries` times, each after
  // `pause` seconds. Throws io_error when all tries failed or a stop signal came meanwhile.
  void require_saved(int tries = 0, double pause = 0);

  // The report of a save that ended since the last call, if any. Not collective.
  std::optional<SaveReport> take_report() { return std::exchange(report_, std::nullopt); }
  double stall_seconds() const { return stall_seconds_; }  // how long training has waited for saves
  int64_t saved_step() const { return saved_step_; }       // -1: none

 private:
  enum class Stage { idle, writing, committing };

  bool begin();
  void note_progress();  // by the thread that writes
  void launch(std::function<void()> work);
  // Returns when the worker has ended; calls `moved` whenever it has made progress.
  void await_worker(const std::function<void()>& moved);
  void join();  // joins the worker and adds its work to the trace
  void commit();
  void advance();  // the next stage of a save, when no rank is working any more
  void take_note(const std::exception& error);  // of this rank's part
  void note_failure();
  bool wait(double seconds);  // false: a stop signal came
  bool first() const { return trainer_.world().rank() == 0; }

  Trainer& trainer_;
  CheckpointStore store_;
  Shard shard_;  // keeps its buffer from save to save
  Manifest manifest_;
  std::string temp_;
  int64_t bytes_ = 0;  // of the files of all ranks
  Stage stage_ = Stage::idle;
  const std::thread::id rank_ = std::this_thread::get_id();
  std::thread worker_;  // writes; if no thread can be started, the rank writes itself
  std::atomic<bool> running_{false};
  std::atomic<uint64_t> progress_{0};     // grows as the worker makes progress and when it ends
  double work_start_ = 0, work_end_ = 0;  // clock_seconds() of the worker; read after joining it
  // Error of this rank's part; written by the worker, to be read after join().
  std::string error_;
  std::string fix_;  // advice for the last error that this rank knows
  SaveReport current_;
  std::optional<SaveReport> report_;
  int64_t saved_step_ = -1;
  int failures_ = 0;   // in a row
  bool last_ = false;  // the save under way is the last of its run
  double stall_seconds_ = 0;
};

}  // namespace stretto
