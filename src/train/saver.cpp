#include "train/saver.h"

#include <chrono>
#include <system_error>

#include "base/clock.h"
#include "base/log.h"
#include "base/trace.h"
#include "base/units.h"
#include "comm/long_work.h"
#include "train/checkpoint.h"
#include "train/signals.h"

namespace stretto {
namespace {

constexpr int kMaxFailures = 3;
constexpr const char* kUsualFix = "make room";

}  // namespace

std::string checkpoint_root(const Config& config) {
  return join_path(config.output, "checkpoints");
}

CheckpointSaver::CheckpointSaver(Trainer& trainer, Fs& fs, int64_t saved_step)
    : trainer_(trainer),
      store_(fs, checkpoint_root(trainer.config()), [this] { note_progress(); }),
      saved_step_(saved_step) {
  if (first()) store_.drop_leftovers();
}

CheckpointSaver::~CheckpointSaver() {
  await_worker([this] { trainer_.world().monitor().beat(); });
  if (worker_.joinable()) worker_.join();
}

void CheckpointSaver::note_progress() {
  if (std::this_thread::get_id() == rank_) trainer_.world().monitor().beat();
  ++progress_;
  progress_.notify_all();
}

void CheckpointSaver::await_worker(const std::function<void()>& moved) {
  for (uint64_t seen = progress_; running_; seen = progress_) {
    progress_.wait(seen);
    moved();
  }
}

void CheckpointSaver::launch(std::function<void()> work) {
  error_.clear();
  running_ = true;
  const auto body = [this, work = std::move(work)] {
    work_start_ = clock_seconds();
    try {
      work();
    } catch (const std::exception& error) {
      take_note(error);
    }
    work_end_ = clock_seconds();
    current_.seconds += work_end_ - work_start_;
    running_ = false;
    note_progress();
  };
  try {
    worker_ = std::thread(body);
  } catch (const std::system_error&) {
    body();  // no thread can be started: the step waits
  }
}

// All ranks agree on a temporary directory, which rank 0 makes.
bool CheckpointSaver::begin() {
  Comm& world = trainer_.world();
  error_.clear();  // forget that of the save before
  fix_ = kUsualFix;
  // A rank with nothing to save leaves no file.
  const int64_t own = shard_.bytes > 0 ? shard_file_bytes(shard_, manifest_.step) : 0;
  auto bytes = static_cast<double>(own);
  world.all_reduce(Tensor(&bytes, DType::f64, {1}));
  bytes_ = static_cast<int64_t>(bytes);
  const uint64_t nonce = fresh_nonce();
  int32_t message[3] = {0, static_cast<int32_t>(nonce >> 32), static_cast<int32_t>(nonce)};
  if (first()) {
    try {
      store_.begin(manifest_.step, nonce, bytes_);
      message[0] = 1;
    } catch (const std::exception& error) {
      take_note(error);
    }
  }
  world.broadcast(Tensor(message, DType::i32, {3}), 0);
  const uint64_t agreed = static_cast<uint64_t>(static_cast<uint32_t>(message[1])) << 32 |
                          static_cast<uint32_t>(message[2]);
  temp_ = store_.temp_path(manifest_.step, agreed);
  return message[0] == 1;
}

void CheckpointSaver::commit() {
  store_.commit(temp_, trainer_.world().size(), manifest_);
  const CheckpointConfig& settings = trainer_.config().checkpoint;
  try {
    store_.prune(manifest_.step, settings.keep, settings.keep_every);
  } catch (const std::exception& error) {
    spdlog::warn("old checkpoints stay: {}", error.what());
  }
}

void CheckpointSaver::save(bool last) {
  const TraceSpan span(TraceLane::save, "save", trainer_.state().step);
  const double start = clock_seconds();
  last_ = last;
  finish();
  if (trainer_.state().step == saved_step_) return;
  collect_shard(trainer_, shard_);
  manifest_ = manifest_of(trainer_);
  if (!begin()) {
    note_failure();
    return;
  }
  stage_ = Stage::writing;
  current_ = {manifest_.step, bytes_, clock_seconds() - start, clock_seconds() - start, {}};
  launch([this] {
    current_.times = store_.write_part(temp_, trainer_.world().rank(), shard_, manifest_.step);
    if (trainer_.world().size() == 1) commit();
  });
  const bool async = trainer_.config().checkpoint.async;
  if (!async) finish();
  stall_seconds_ += clock_seconds() - start;
  if (!async && report_) report_->stall = clock_seconds() - start;
}

void CheckpointSaver::poll() {
  if (stage_ == Stage::idle) return;
  int32_t busy = running_ ? 1 : 0;
  trainer_.world().all_reduce(Tensor(&busy, DType::i32, {1}), ReduceOp::max);
  if (busy == 0) advance();
}

void CheckpointSaver::join() {
  if (!worker_.joinable()) return;
  worker_.join();
  TraceBuffer* trace = current_trace();
  if (trace != nullptr) trace->span(TraceLane::writer, "write", work_start_, work_end_);
}

void CheckpointSaver::advance() {
  join();
  int32_t failed = error_.empty() ? 0 : 1;
  trainer_.world().all_reduce(Tensor(&failed, DType::i32, {1}), ReduceOp::max);
  if (failed != 0) {
    stage_ = Stage::idle;
    if (first()) store_.drop(temp_);
    note_failure();
    return;
  }
  if (stage_ == Stage::writing && trainer_.world().size() > 1) {
    stage_ = Stage::committing;
    if (first()) launch([this] { commit(); });
    return;
  }
  stage_ = Stage::idle;
  saved_step_ = manifest_.step;
  failures_ = 0;
  report_ = current_;
}

void CheckpointSaver::finish() {
  while (stage_ != Stage::idle) {
    LongWork work(trainer_.world());
    await_worker([&] { work.moved(); });
    work.wait();
    advance();
  }
}

void CheckpointSaver::take_note(const std::exception& error) {
  error_ = error.what();
  const auto* ours = dynamic_cast<const Error*>(&error);
  fix_ = ours != nullptr && !ours->hint().empty() ? ours->hint() : kUsualFix;
}

void CheckpointSaver::note_failure() {
  ++failures_;
  const std::string kept = saved_step_ < 0 ? "there is no earlier checkpoint"
                                           : fmt::format("{} stays", store_.path_of(saved_step_));
  if (!error_.empty()) {
    spdlog::warn("step {} is not saved: {}; {}", manifest_.step, error_, kept);
  }
  if (last_ || failures_ < kMaxFailures) return;
  throw Error(ExitCode::io_error,
              fmt::format("{} saves in a row failed, last at step {}{}{}", failures_,
                          manifest_.step, error_.empty() ? "" : ": ", error_),
              fmt::format("{}, and repeat the command; {}", fix_, kept));
}

// Ranks keep exchanging messages here. That counts as a sign of life for the watchdog, and a stop
// signal that reaches only one rank ends the wait of all of them.
bool CheckpointSaver::wait(double seconds) {
  const int known = stop_signal();  // has ended the run, if not 0
  const double end = clock_seconds() + seconds;
  while (true) {
    int32_t any[] = {stop_signal() == known ? 0 : 1, clock_seconds() < end ? 0 : 1};
    trainer_.world().all_reduce(Tensor(any, DType::i32, {2}), ReduceOp::max);
    if (any[0] != 0 || any[1] != 0) return any[0] == 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

void CheckpointSaver::require_saved(int tries, double pause) {
  const int64_t step = trainer_.state().step;
  finish();
  if (first() && saved_step_ != step && tries > 0) {
    spdlog::warn(
        "the last save is tried again every {}, up to {} times: {}, or press Ctrl-C to give up",
        format_seconds(pause), tries, fix_);
  }
  for (int i = 0; i < tries && saved_step_ != step && wait(pause); ++i) {
    save(true);
    finish();
  }
  if (saved_step_ == step) return;
  throw Error(ExitCode::io_error,
              fmt::format("step {} could not be saved in {}", step, store_.root()),
              saved_step_ < 0
                  ? fmt::format("{}, and repeat the command: it begins anew", fix_)
                  : fmt::format("{}, and repeat the command: it goes on from {}, {} before", fix_,
                                store_.path_of(saved_step_), counted(step - saved_step_, "step")));
}

}  // namespace stretto
