// The one way to files. Every operation the program performs on storage is one virtual call here,
// so tests can fail, kill or power-cut each of them, and count that none is missed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace stretto {

// A failed file operation. Exit code by cause: 66 missing, 77 permission, 73 cannot create, 74 I/O.
class FsError : public Error {
 public:
  FsError(ExitCode code, std::string what, std::string hint, int error_number)
      : Error(code, std::move(what), std::move(hint)), error_number_(error_number) {}

  int error_number() const { return error_number_; }  // an errno value
  bool disk_full() const;                             // ENOSPC or EDQUOT

 private:
  int error_number_;
};

// The FsError for `error_number` while doing `action` ("open", "write") on `path`. With `creating`,
// causes that would otherwise read as a missing input become "cannot create" (73).
FsError fs_error(int error_number, std::string_view action, const std::string& path,
                 bool creating = false);

constexpr int64_t kDirectBlock = 4096;  // bytes; see File::bypass_cache()

// An open file. Closing in the destructor is silent; writers call sync() and close() to learn of
// failures. Offsets and sizes are bytes.
class File {
 public:
  virtual ~File() = default;

  // Reads up to `bytes`; fewer only at the end of the file. Interrupted and partial reads resume.
  virtual size_t read_at(void* out, size_t bytes, int64_t offset) = 0;
  // Writes all of it or throws.
  virtual void write_at(const void* data, size_t bytes, int64_t offset) = 0;
  virtual int64_t size() = 0;
  // Reserves space so that a full disk shows before any content is written.
  virtual void preallocate(int64_t bytes) = 0;
  virtual void sync() = 0;
  virtual void close() = 0;
  // From here on whole blocks go past the page cache where the system can do that: a processor has
  // almost no work with them, and reading back means reading from the disk. It takes memory and
  // offsets that are equal modulo kDirectBlock; other transfers are as before.
  virtual void bypass_cache() {}
  // Marks the file as this process's until it is closed or the process ends, however that is. Then
  // held() of others is false; it is true also where the system cannot tell.
  virtual void hold() {}
  virtual bool held() { return true; }

  const std::string& path() const { return path_; }

  // Sequential writing, from the end of what was there when the file was opened.
  void append(std::string_view data) {
    write_at(data.data(), data.size(), appended_);
    appended_ += static_cast<int64_t>(data.size());
  }
  int64_t appended() const { return appended_; }

 protected:
  // `size`: what is already there, so that append() continues at the end.
  explicit File(std::string path, int64_t size = 0) : path_(std::move(path)), appended_(size) {}

 private:
  std::string path_;
  int64_t appended_;
};

// A read-only view of a whole file that stays valid while this object lives.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  // Copies [offset, offset + bytes). Throws bad_data when the file has shrunk so far that the pages
  // are gone. There is no pointer to the bytes: touching such a page elsewhere is a SIGBUS.
  void copy(void* out, size_t bytes, int64_t offset) const;
  // Throws bad_data when the file is shorter than it was. What it lost of its last page reads as
  // zeros, so readers ask after copying, once for many copies.
  virtual void require_whole() const {}

 protected:
  MappedFile(std::string path, const char* data, int64_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

 private:
  std::string path_;
  const char* data_;
  int64_t size_;
};

enum class FileKind { regular, directory, other };

struct FileInfo {
  FileKind kind = FileKind::other;  // of the target, for a link
  bool link = false;                // symbolic; `other` when the target is missing
  int64_t bytes = 0;
  int64_t modified_ns = 0;  // since the epoch
};

class Fs {
 public:
  virtual ~Fs() = default;

  // Only regular files; a directory, FIFO or device is bad_data, and never blocks.
  virtual std::unique_ptr<File> open(const std::string& path) = 0;
  // A new file, or an error: never overwrites and never follows a link.
  virtual std::unique_ptr<File> create(const std::string& path) = 0;
  // Opens or creates for appending; append() continues at the end. For logs.
  virtual std::unique_ptr<File> open_append(const std::string& path) = 0;
  virtual std::unique_ptr<MappedFile> map(const std::string& path) = 0;

  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void remove(const std::string& path) = 0;    // a file or an empty directory
  virtual void make_dir(const std::string& path) = 0;  // fails when it exists
  virtual void sync_dir(const std::string& path) = 0;  // makes names in it durable
  virtual std::vector<std::string> list(const std::string& path) = 0;  // names, sorted
  virtual std::optional<FileInfo> info(const std::string& path) = 0;   // nothing when missing
  virtual int64_t free_space(const std::string& path) = 0;             // bytes, for this user
};

Fs& posix_fs();

// The whole file; bad_data when it is larger than `max_bytes`.
std::string read_file(Fs& fs, const std::string& path, int64_t max_bytes);

// Temporary file, sync, rename, sync of the directory: readers see the old or the new content.
void write_file_atomic(Fs& fs, const std::string& path, std::string_view content);

// A new directory, PREFIX and six letters, where TMPDIR says or in /tmp. `needs`: what for, to tell
// whoever has to find another place.
std::string make_temp_dir(const std::string& prefix, const std::string& needs);

// A file that appears under its name only at commit(), durable; dropped otherwise.
class AtomicFile {
 public:
  AtomicFile(Fs& fs, std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  File& file() { return *file_; }
  void commit();

 private:
  Fs& fs_;
  std::string path_;
  std::string temp_path_;
  std::unique_ptr<File> file_;
  bool committed_ = false;
};

// Removes what AtomicFiles of `path` left behind when their processes were killed.
void drop_leftovers(Fs& fs, const std::string& path) noexcept;

// A new directory that appears under its name only at commit(), durable; dropped otherwise, with
// everything in it. Its files are synced by those who write them.
class AtomicDirectory {
 public:
  AtomicDirectory(Fs& fs, std::string path);
  ~AtomicDirectory();
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;

  const std::string& temp_path() const { return temp_path_; }  // where to write until then
  void commit();

 private:
  Fs& fs_;
  std::string path_;
  std::string temp_path_;
  bool committed_ = false;
};

// `path` and its missing parents.
void make_dirs(Fs& fs, const std::string& path);
// A directory with everything in it; links are removed, not followed.
void remove_tree(Fs& fs, const std::string& path);

std::string parent_dir(const std::string& path);  // "." when there is none
std::string join_path(const std::string& directory, std::string_view name);

}  // namespace stretto
