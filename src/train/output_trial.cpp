#include "train/output_trial.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"
#include "checkpoint/store.h"
#include "train/gather.h"

namespace stretto {
namespace {

// A network file system may show a name to other machines only when it looks again.
constexpr double kPatience = 20;  // seconds

bool appears(Fs& fs, const std::string& path, double patience) {
  const double end = clock_seconds() + patience;
  while (!fs.info(path)) {
    if (clock_seconds() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return true;
}

std::string absolute(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

// The name of the directory that rank 0 has made for the trial, on all ranks, and where it is.
struct Place {
  std::string name, host, path;  // no name: there is none
};

Place agreed_place(Comm& world, const std::string& made) {
  const auto told = [&](const std::string& text) { return broadcast_text(world, text, 0); };
  return {told(std::filesystem::path(made).filename().string()), told(host_name()),
          told(made.empty() ? "" : absolute(made))};
}

void write_mine(Comm& world, Fs& fs, const std::string& root, const Place& place) {
  const std::string directory = join_path(root, place.name);
  if (!appears(fs, directory, place.host == host_name() ? 0 : kPatience)) {
    throw Error(ExitCode::bad_config,
                fmt::format("output= is not the same directory on all ranks: rank 0 ({}) has made "
                            "{}, rank {} ({}) finds no {}",
                            printable(place.host), printable(place.path), world.rank(),
                            printable(host_name()), printable(absolute(directory))),
                "set output= to a directory on a file system that all machines share");
  }
  const std::string file = join_path(directory, fmt::format("rank-{}", world.rank()));
  fs.create(file)->close();
  fs.remove(file);
}

bool full(const Error& error) {
  const auto* from_fs = dynamic_cast<const FsError*>(&error);
  return from_fs != nullptr && from_fs->disk_full();
}

// What the call throws, unless the disk is full.
template <typename Call>
std::optional<Error> failure(const Comm& world, Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    if (full(error)) return std::nullopt;
    if (world.size() == 1 || error.code() == ExitCode::bad_config) return error;
    return Error(error.code(),
                 fmt::format("rank {} ({}) {}", world.rank(), printable(host_name()), error.what()),
                 error.hint());
  }
  return std::nullopt;
}

}  // namespace

void try_output(Comm& world, Fs& fs, const std::string& root) {
  CheckpointStore store(fs, root);
  std::string made;
  bool had_root = true;
  std::optional<Error> error;
  if (world.rank() == 0) {
    error = failure(world, [&] {
      had_root = fs.info(root).has_value();
      made = store.begin(0, fresh_nonce(), 0);
    });
  }
  const Place place = agreed_place(world, made);
  if (!place.name.empty()) error = failure(world, [&] { write_mine(world, fs, root, place); });
  world.barrier();  // every rank has removed its file
  if (!made.empty()) store.drop(made);
  if (!had_root) {
    try {
      fs.remove(root);
    } catch (const FsError&) {
      // It was not made.
    }
  }
  throw_together(world, error);
}

}  // namespace stretto
