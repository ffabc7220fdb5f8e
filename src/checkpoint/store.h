// The directory of a run's checkpoints, and how a checkpoint is committed.
//
// Rank 0 makes `step-N.tmp-<nonce>/`. Every rank writes and syncs its shard there, with a small
// record beside it. When all have agreed, rank 0 collects the records into the manifest, syncs file
// and directory, renames the directory to `step-N` and syncs its parent. Before the rename nothing
// looks like a checkpoint; after it everything is durable. There is no "latest" file: the newest
// directory that verifies is the latest.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fs.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shard.h"

namespace stretto {

class CheckpointStore {
 public:
  // `moved` is called as write_part(), commit() and prune() make progress.
  CheckpointStore(Fs& fs, std::string root, OnProgress moved = unheard)
      : fs_(fs), root_(std::move(root)), moved_(std::move(moved)) {}

  const std::string& root() const { return root_; }
  Fs& fs() const { return fs_; }
  std::string path_of(int64_t step) const;
  std::string temp_path(int64_t step, uint64_t nonce) const;
  std::vector<int64_t> steps() const;  // ascending; not verified
  // Throws bad_data if the directory holds another step than its name says.
  Checkpoint open(int64_t step) const;

  // --- saving, in this order -------------------------------------------------------------------
  // Throws FsError (disk full) unless `bytes` and a reserve are free; makes root and the temporary
  // directory, whose path it returns.
  std::string begin(int64_t step, uint64_t nonce, int64_t bytes);
  // Any rank, any thread.
  WriteTimes write_part(const std::string& temp, int part, const Shard& shard, int64_t step);
  // After all `parts` have been written. `manifest.files` is filled in here.
  void commit(const std::string& temp, int parts, Manifest manifest);
  void drop(const std::string& temp) noexcept;  // after a save that failed

  // --- cleaning up -----------------------------------------------------------------------------
  void drop_leftovers() noexcept;  // temporary directories of runs that died
  // Removes the checkpoints before `step`, except the newest keep - 1 and multiples of keep_every.
  // Removes nothing unless every byte of `step` itself verifies.
  void prune(int64_t step, int64_t keep, int64_t keep_every);

 private:
  Fs& fs_;
  std::string root_;
  OnProgress moved_;
};

// Whether the checkpoint may be undamaged although reading it gave this error: no permission, or
// the system ran out of resources. Then nothing may be written in its place.
bool may_be_whole(const Error& error);

// The newest checkpoint of which every byte verifies. `rejected` is called for newer ones that do
// not.
std::optional<Checkpoint> newest_verified(
    const CheckpointStore& store,
    const std::function<void(int64_t step, const Error& error)>& rejected = {});

// The store that a path means: a run directory, its checkpoints/, or the parent of a checkpoint.
// `step` is set if the path is a checkpoint. Throws no_input if it is none of these.
CheckpointStore store_at(Fs& fs, const std::string& path, std::optional<int64_t>& step);
// The checkpoint that a path means, opened and verified: the path itself, or the newest good one in
// it.
Checkpoint checkpoint_at(Fs& fs, const std::string& path);

// The run that a checkpoint belongs to: the directory that contains its `checkpoints/`. Empty if
// the checkpoint is not in such a directory.
std::string run_directory_of(const Checkpoint& checkpoint);

uint64_t fresh_nonce();  // for the name of a temporary directory

std::string step_name(int64_t step);                         // "step-40"
std::optional<int64_t> step_of_name(std::string_view name);  // nothing for other names

}  // namespace stretto
