// All access to files. Every operation that the program performs on storage is one virtual call
// here, so that tests can make each of them fail, or kill the process or cut the power at it, and
// can count that none is left out.
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

// A failed file operation. Its exit code depends on the cause: 66 missing, 77 permission, 73 cannot
// create, 74 I/O.
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
// causes that usually mean a missing input become "cannot create" (73).
FsError fs_error(int error_number, std::string_view action, const std::string& path,
                 bool creating = false);

constexpr int64_t kDirectBlock = 4096;  // bytes; see File::bypass_cache()

// An open file. The destructor closes it without reporting errors, so writers call sync() and
// close(). Offsets and sizes are in bytes.
class File {
 public:
  virtual ~File() = default;

  // Reads up to `bytes`, and fewer only at the end of the file. Continues after interrupted and
  // partial reads.
  virtual size_t read_at(void* out, size_t bytes, int64_t offset) = 0;
  // Writes all of it or throws.
  virtual void write_at(const void* data, size_t bytes, int64_t offset) = 0;
  virtual int64_t size() = 0;
  // Reserves space, so that a full disk is noticed before any content is written.
  virtual void preallocate(int64_t bytes) = 0;
  virtual void sync() = 0;
  virtual void close() = 0;
  // From now on whole blocks bypass the page cache if the system can do that: the processor has
  // almost no work with them, and reading them back really reads the disk. Only if memory address
  // and offset are equal modulo kDirectBlock; other transfers are as before.
  virtual void bypass_cache() {}
  // Marks the file as used by this process until it is closed or the process ends, in whatever way.
  // Meanwhile held(), asked of the same file opened again, is true. It is also true if the system
  // cannot tell. If held() is false, hold() of others fails until this one is closed.
  virtual bool hold() { return true; }
  virtual bool held() { return true; }

  const std::string& path() const { return path_; }

  // Writes sequentially, after what was there when the file was opened.
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

// A read-only view of a whole file, valid as long as this object exists.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  // Copies [offset, offset + bytes). Throws bad_data if the file has become so short that the pages
  // are gone. There is no pointer to the bytes, because touching such a page anywhere else is a
  // SIGBUS.
  void copy(void* out, size_t bytes, int64_t offset) const;
  // Throws bad_data if the file has become shorter. Bytes cut off inside its last page read as
  // zeros, so readers call this after copying, once for many copies.
  virtual void require_whole() const {}

 protected:
  MappedFile(std::string path, const char* data, int64_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

 private:
  std::string path_;
  const char* data_;
  int64_t size_;
};

enum class FileKind { regular, directory, other, missing };

struct FileInfo {
  FileKind kind = FileKind::other;  // of the target, for a link; `missing` if there is none
  bool link = false;                // symbolic
  int64_t bytes = 0;
  int64_t modified_ns = 0;  // since the epoch
};

class Fs {
 public:
  virtual ~Fs() = default;

  // Only regular files: for a directory, FIFO or device throws bad_data, and never blocks.
  virtual std::unique_ptr<File> open(const std::string& path) = 0;
  // Creates a new file or fails: never overwrites a file and never follows a link.
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

// Reads a whole file. Throws bad_data if it is larger than `max_bytes`.
std::string read_file(Fs& fs, const std::string& path, int64_t max_bytes);

// Writes a temporary file, syncs and renames it, and syncs the directory: readers see the old or
// the new content, nothing in between.
void write_file_atomic(Fs& fs, const std::string& path, std::string_view content);

// A new directory called PREFIX and six letters, in TMPDIR or /tmp. `needs`: what it is for, for
// the message to a user who has to choose another place.
std::string make_temp_dir(const std::string& prefix, const std::string& needs);

// A file that gets its name only by commit(), which makes it durable; without commit() it is
// removed. It takes the place of a regular file only: for anything else the constructor throws.
// What a killed process has left of a file or directory of that name is removed by the next one.
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

// A new directory that gets its name only by commit(), which makes it durable; without commit() it
// is removed with everything in it. Leftovers are removed as by an AtomicFile. Whoever writes the
// files in it must sync them.
class AtomicDirectory {
 public:
  AtomicDirectory(Fs& fs, std::string path);
  ~AtomicDirectory();
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;

  const std::string& temp_path() const { return temp_path_; }  // where to write until commit()
  void commit();

 private:
  Fs& fs_;
  std::string path_;
  std::string temp_path_;
  AtomicFile claim_;  // never committed; `temp_path_` is a leftover if it has none
  bool committed_ = false;
};

// Makes `path` and its missing parents.
void make_dirs(Fs& fs, const std::string& path);
// Removes a directory and everything in it; links are removed, not followed.
void remove_tree(Fs& fs, const std::string& path);

std::string parent_dir(const std::string& path);  // "." when there is none
std::string join_path(const std::string& directory, std::string_view name);

}  // namespace stretto
