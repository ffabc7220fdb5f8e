// A file system in memory that knows what a power cut may leave: bytes after the last sync of their
// file, and names after the last sync of their directory, may or may not survive.
#pragma once

#include <cerrno>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "base/fs.h"

namespace stretto::test {

class MemoryFs final : public Fs {
 public:
  // What a power cut keeps of everything that was not synced.
  enum class Cut { nothing, everything, some };

  MemoryFs() : root_(std::make_shared<Node>()) { root_->directory = true; }

  // The state after a power cut now. `seed` picks one of the legal states for `some`.
  std::unique_ptr<MemoryFs> after_power_cut(Cut cut, uint64_t seed = 0) const {
    auto fs = std::make_unique<MemoryFs>();
    std::mt19937_64 rng(seed);
    fs->root_ = survivor(*root_, cut, rng);
    return fs;
  }
  // The same state after the death of the process alone: nothing is lost.
  std::unique_ptr<MemoryFs> copy() const {
    auto fs = std::make_unique<MemoryFs>();
    fs->root_ = duplicate(*root_);
    return fs;
  }

  // For tests that damage files.
  std::string& content(const std::string& path) { return existing(path)->data; }
  int64_t free_bytes = int64_t{1} << 40;

  std::unique_ptr<File> open(const std::string& path) override {
    return std::make_unique<MemoryFile>(path, existing_file(path));
  }
  std::unique_ptr<File> create(const std::string& path) override {
    const auto [dir, name] = place(path);
    if (dir->entries.count(name) > 0) throw fs_error(EEXIST, "create", path, true);
    const auto node = std::make_shared<Node>();
    dir->enter(name, node);
    return std::make_unique<MemoryFile>(path, node);
  }
  std::unique_ptr<File> open_append(const std::string& path) override {
    const auto [dir, name] = place(path);
    return dir->entries.count(name) > 0 ? open(path) : create(path);
  }
  std::unique_ptr<MappedFile> map(const std::string& path) override {
    return std::make_unique<MemoryMap>(path, existing_file(path));
  }
  void rename(const std::string& from, const std::string& to) override {
    const auto [dir, name] = place(from);
    const auto [target_dir, target] = place(to);
    const NodePtr node = existing(from);
    const auto there = target_dir->entries.find(target);
    if (there != target_dir->entries.end() && !there->second->entries.empty()) {
      throw fs_error(ENOTEMPTY, "rename to", to, true);
    }
    if (dir != target_dir) throw fs_error(EXDEV, "rename to", to, true);  // not modelled
    dir->entries.erase(name);
    dir->entries[target] = node;
    dir->log.push_back({name, target, node});
  }
  void remove(const std::string& path) override {
    const auto [dir, name] = place(path);
    if (!existing(path)->entries.empty()) throw fs_error(ENOTEMPTY, "remove", path);
    dir->entries.erase(name);
    dir->log.push_back({name, "", nullptr});
  }
  void make_dir(const std::string& path) override {
    const auto [dir, name] = place(path);
    if (dir->entries.count(name) > 0) throw fs_error(EEXIST, "create directory", path, true);
    const auto node = std::make_shared<Node>();
    node->directory = true;
    dir->enter(name, node);
  }
  void sync_dir(const std::string& path) override {
    const NodePtr dir = existing(path);
    dir->durable = dir->entries;
    dir->log.clear();
  }
  std::vector<std::string> list(const std::string& path) override {
    std::vector<std::string> names;
    for (const auto& [name, node] : existing(path)->entries) names.push_back(name);
    return names;
  }
  std::optional<FileInfo> info(const std::string& path) override {
    const NodePtr node = find(path);
    if (!node) return std::nullopt;
    return FileInfo{node->directory ? FileKind::directory : FileKind::regular, false,
                    static_cast<int64_t>(node->data.size()), 0};
  }
  int64_t free_space(const std::string&) override { return free_bytes; }

 private:
  struct Node;
  using NodePtr = std::shared_ptr<Node>;
  struct NameChange {
    std::string gone, come;  // empty: none
    NodePtr node;
  };
  struct Node {
    bool directory = false;
    std::string data, synced;
    std::map<std::string, NodePtr> entries, durable;
    std::vector<NameChange> log;  // since the last sync

    void enter(const std::string& name, const NodePtr& node) {
      entries[name] = node;
      log.push_back({"", name, node});
    }
  };

  class MemoryFile final : public File {
   public:
    MemoryFile(std::string path, NodePtr node)
        : File(std::move(path), static_cast<int64_t>(node->data.size())), node_(std::move(node)) {}
    size_t read_at(void* out, size_t bytes, int64_t offset) override {
      return node_->data.copy(static_cast<char*>(out), bytes, static_cast<size_t>(offset));
    }
    void write_at(const void* data, size_t bytes, int64_t offset) override {
      const auto at = static_cast<size_t>(offset);
      if (node_->data.size() < at + bytes) node_->data.resize(at + bytes);
      node_->data.replace(at, bytes, static_cast<const char*>(data), bytes);
    }
    int64_t size() override { return static_cast<int64_t>(node_->data.size()); }
    void preallocate(int64_t bytes) override {
      const auto size = static_cast<size_t>(bytes);
      if (node_->data.size() < size) node_->data.resize(size);
    }
    void sync() override { node_->synced = node_->data; }
    void close() override {}

   private:
    NodePtr node_;
  };

  class MemoryMap final : public MappedFile {
   public:
    MemoryMap(std::string path, NodePtr node)
        : MappedFile(std::move(path), node->data.data(), static_cast<int64_t>(node->data.size())),
          node_(std::move(node)) {}

   private:
    NodePtr node_;
  };

  static std::string torn(const Node& file, std::mt19937_64& rng) {
    std::string out = rng() % 2 == 0 ? file.data : file.synced;
    for (size_t at = 0; at < out.size(); at += 512) {
      const std::string& source = rng() % 2 == 0 ? file.data : file.synced;
      for (size_t i = at; i < std::min(at + 512, out.size()); ++i) {
        out[i] = i < source.size() ? source[i] : '\0';
      }
    }
    return out;
  }

  static NodePtr survivor(const Node& node, Cut cut, std::mt19937_64& rng) {
    const auto out = std::make_shared<Node>();
    out->directory = node.directory;
    out->data = cut == Cut::nothing      ? node.synced
                : cut == Cut::everything ? node.data
                                         : torn(node, rng);
    out->synced = out->data;
    auto entries = cut == Cut::everything ? node.entries : node.durable;
    if (cut == Cut::some) {
      for (const NameChange& change : node.log) {
        if (rng() % 2 == 0) continue;
        if (!change.gone.empty()) entries.erase(change.gone);
        if (!change.come.empty()) entries[change.come] = change.node;
      }
    }
    for (const auto& [name, child] : entries) out->entries[name] = survivor(*child, cut, rng);
    out->durable = out->entries;
    return out;
  }

  static NodePtr duplicate(const Node& node) {
    const auto out = std::make_shared<Node>(node);
    std::map<const Node*, NodePtr> copies;
    const auto copy_of = [&](NodePtr& child) {
      if (!child) return;
      NodePtr& copy = copies[child.get()];
      if (!copy) copy = duplicate(*child);
      child = copy;
    };
    for (auto& [name, child] : out->entries) copy_of(child);
    for (auto& [name, child] : out->durable) copy_of(child);
    for (NameChange& change : out->log) copy_of(change.node);
    return out;
  }

  NodePtr find(const std::string& path) const {
    NodePtr at = root_;
    for (size_t begin = 0; at && begin < path.size();) {
      const size_t end = std::min(path.find('/', begin), path.size());
      const std::string name = path.substr(begin, end - begin);
      begin = end + 1;
      if (name.empty() || name == ".") continue;
      const auto child = at->entries.find(name);
      at = child == at->entries.end() ? nullptr : child->second;
    }
    return at;
  }
  NodePtr existing(const std::string& path) const {
    NodePtr node = find(path);
    if (!node) throw fs_error(ENOENT, "open", path);
    return node;
  }
  NodePtr existing_file(const std::string& path) const {
    NodePtr node = existing(path);
    if (node->directory) throw fs_error(EISDIR, "open", path);
    return node;
  }
  std::pair<NodePtr, std::string> place(const std::string& path) const {
    return {existing(parent_dir(path)), path.substr(path.find_last_of('/') + 1)};
  }

  NodePtr root_;
};

}  // namespace stretto::test
