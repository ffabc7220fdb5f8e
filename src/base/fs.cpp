#include "base/fs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "base/random.h"

namespace stretto {
namespace {

constexpr std::string_view kTempMark = ".tmp-";
constexpr size_t kTempDigits = 12;

// Hard enough to guess that other processes do not choose it; O_EXCL settles the rest.
std::string temp_name(const std::string& path) {
  static std::atomic<uint64_t> counter{0};
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  const CounterRng rng(static_cast<uint64_t>(now), static_cast<uint64_t>(::getpid()));
  const std::string_view name(path.data(), path.find_last_not_of('/') + 1);
  return fmt::format("{}{}{:0{}x}", name, kTempMark, rng.bits(counter++) >> 16, kTempDigits);
}

// The name that a temporary one stands for; empty for all other names.
std::string_view target_of(std::string_view name) {
  constexpr size_t kSuffix = kTempMark.size() + kTempDigits;
  if (name.size() <= kSuffix) return {};
  const std::string_view mark = name.substr(name.size() - kSuffix);
  const size_t other = mark.find_first_not_of("0123456789abcdef", kTempMark.size());
  const bool ours = mark.starts_with(kTempMark) && other == std::string_view::npos;
  return ours ? name.substr(0, name.size() - kSuffix) : std::string_view();
}

void drop_unless_held(Fs& fs, const std::string& path) {
  const auto file = fs.open(path);  // closed only when it is gone: nobody can begin to hold it
  if (!file->held()) fs.remove(path);
}

// Removes what AtomicFiles and AtomicDirectories of `path` left behind when their processes were
// killed. The claim of a directory is made before it and goes after it.
void drop_leftovers(Fs& fs, std::string_view path) noexcept {
  try {
    path = path.substr(0, path.find_last_not_of('/') + 1);
    const std::string_view target = path.substr(path.find_last_of('/') + 1);
    const std::string parent = parent_dir(std::string(path));
    std::vector<std::string> directories;
    for (const std::string& name : fs.list(parent)) {
      const bool file_or_directory = target_of(name) == target;
      if (!file_or_directory && target_of(target_of(name)) != target) continue;
      const auto info = fs.info(join_path(parent, name));
      if (!info || info->link) continue;
      if (info->kind == FileKind::regular) drop_unless_held(fs, join_path(parent, name));
      if (info->kind == FileKind::directory && file_or_directory) directories.push_back(name);
    }
    if (directories.empty()) return;
    const std::vector<std::string> names = fs.list(parent);
    for (const std::string& directory : directories) {
      const bool claimed = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        return target_of(name) == directory;
      });
      if (!claimed) remove_tree(fs, join_path(parent, directory));
    }
  } catch (const std::exception&) {
    return;  // leftovers do no harm
  }
}

FsError dangling(const char* action, const std::string& path) {
  return {ExitCode::cannot_create,
          fmt::format("cannot {} {}: it is a link whose target is missing", action, path),
          "create the target, or remove the link", ENOENT};
}

// A rename would put a file into the place of a device, which root may do to /dev/null.
std::string replaceable(Fs& fs, std::string path) {
  const auto info = fs.info(path);
  if (!info || info->kind == FileKind::regular) return path;
  if (info->kind == FileKind::directory) throw fs_error(EISDIR, "write", path, true);
  if (info->kind == FileKind::missing) throw dangling("write", path);
  throw Error(ExitCode::cannot_create,
              fmt::format("cannot write {}: what is there is no file", path),
              "name a file; a device, a pipe or a link to one is not replaced");
}

}  // namespace

bool FsError::disk_full() const { return error_number_ == ENOSPC || error_number_ == EDQUOT; }

FsError fs_error(int error_number, std::string_view action, const std::string& path,
                 bool creating) {
  const std::string what =
      fmt::format("cannot {} {}: {}", action, path, std::strerror(error_number));
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      if (!creating) return {ExitCode::no_input, what, "check the path", error_number};
      return {ExitCode::cannot_create, what,
              error_number == ENOENT ? "create the directory first"
                                     : "choose another name, or remove what is there",
              error_number};
    case EACCES:
    case EPERM:
    case EROFS:
      return {ExitCode::no_permission, what, "check owner and mode of the file and its directory",
              error_number};
    case EEXIST:
    case ENOTEMPTY:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return {creating ? ExitCode::cannot_create : ExitCode::no_input, what,
              "choose another name, or remove what is there", error_number};
    case ENOSPC:
    case EDQUOT:
      return {ExitCode::io_error, what, "the disk or quota is full: free some space", error_number};
    case EMFILE:
    case ENFILE:
      return {ExitCode::os_error, what, "raise the limit on open files (ulimit -n)", error_number};
    case ENOMEM:
      return {ExitCode::os_error, what, "raise the limit on memory (ulimit -v, vm.max_map_count)",
              error_number};
    default:
      return {creating ? ExitCode::cannot_create : ExitCode::io_error, what,
              "check the disk and the system log", error_number};
  }
}

std::string read_file(Fs& fs, const std::string& path, int64_t max_bytes) {
  const auto file = fs.open(path);
  const int64_t size = file->size();
  if (size > max_bytes) {
    throw Error(
        ExitCode::bad_data,
        fmt::format("{} has {} bytes, more than the {} allowed here", path, size, max_bytes),
        "check that this is the right file");
  }
  std::string content(static_cast<size_t>(size), '\0');
  content.resize(file->read_at(content.data(), content.size(), 0));
  return content;
}

void write_file_atomic(Fs& fs, const std::string& path, std::string_view content) {
  AtomicFile out(fs, path);
  out.file().append(content);
  out.commit();
}

std::string make_temp_dir(const std::string& prefix, const std::string& needs) {
  const char* place = std::getenv("TMPDIR");
  std::string path =
      join_path(place != nullptr && *place != '\0' ? place : "/tmp", prefix + "XXXXXX");
  if (::mkdtemp(path.data()) != nullptr) return path;
  const FsError why = fs_error(errno, "create", path, true);
  throw Error(why.code(), why.what(), fmt::format("set TMPDIR to a directory with {}", needs));
}

AtomicFile::AtomicFile(Fs& fs, std::string path)
    : fs_(fs), path_(replaceable(fs, std::move(path))) {
  drop_leftovers(fs, path_);
  do {  // until nobody has removed it as a leftover, or is about to
    temp_path_ = temp_name(path_);
    file_ = fs.create(temp_path_);
  } while (!file_->hold() || !fs.info(temp_path_));
}

AtomicFile::~AtomicFile() {
  if (committed_) return;
  try {
    file_.reset();
    fs_.remove(temp_path_);
  } catch (const std::exception&) {
    // The original error is more important; a leftover temporary file does no harm.
  }
}

void AtomicFile::commit() {
  file_->sync();
  fs_.rename(temp_path_, path_);  // held until then, so that nobody takes it for a leftover
  committed_ = true;
  file_->close();
  fs_.sync_dir(parent_dir(path_));
}

AtomicDirectory::AtomicDirectory(Fs& fs, std::string path)
    : fs_(fs), path_(std::move(path)), temp_path_(temp_name(path_)), claim_(fs, temp_path_) {
  drop_leftovers(fs_, path_);
  fs_.make_dir(temp_path_);
}

AtomicDirectory::~AtomicDirectory() {
  if (committed_) return;
  try {
    remove_tree(fs_, temp_path_);
  } catch (const std::exception&) {
    // As above: the original error is more important.
  }
}

void AtomicDirectory::commit() {
  fs_.sync_dir(temp_path_);
  fs_.rename(temp_path_, path_);
  committed_ = true;
  fs_.sync_dir(parent_dir(path_));
}

void make_dirs(Fs& fs, const std::string& path) {
  if (path.empty() || path == "/" || path == ".") return;
  // With a slash behind it a link would be taken for what it leads to.
  if (path.back() == '/') return make_dirs(fs, path.substr(0, path.size() - 1));
  if (const auto info = fs.info(path)) {
    if (info->kind == FileKind::missing) throw dangling("use directory", path);
    if (info->kind != FileKind::directory) throw fs_error(ENOTDIR, "use directory", path, true);
    return;
  }
  make_dirs(fs, parent_dir(path));
  try {
    fs.make_dir(path);
  } catch (const FsError& error) {
    if (error.error_number() != EEXIST) throw;  // another process was faster
  }
}

void remove_tree(Fs& fs, const std::string& path) {
  const auto info = fs.info(path);
  if (!info) return;
  if (info->kind == FileKind::directory && !info->link) {
    for (const std::string& name : fs.list(path)) remove_tree(fs, join_path(path, name));
  }
  fs.remove(path);
}

std::string parent_dir(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  const size_t slash = end == std::string::npos ? 0 : path.find_last_of('/', end);
  if (slash == std::string::npos) return ".";
  const size_t keep = path.find_last_not_of('/', slash);
  return keep == std::string::npos ? "/" : path.substr(0, keep + 1);
}

std::string join_path(const std::string& directory, std::string_view name) {
  if (directory.empty() || directory == ".") return std::string(name);
  return fmt::format("{}{}{}", directory, directory.back() == '/' ? "" : "/", name);
}

}  // namespace stretto
