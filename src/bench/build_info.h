// What this program was built from. It is part of every record, because other builds give other
// results.
#pragma once

#include <string>
#include <vector>

namespace stretto {

struct BuildInfo {
  std::string version;
  std::string commit;  // "unknown" outside a checkout; "-dirty" when files differ from it
  std::string compiler;
  std::string flags;
  std::string libraries;  // with the versions they were built for

  bool operator==(const BuildInfo&) const = default;
  // Identifies the program without its libraries.
  std::string program() const { return version + commit + compiler + flags; }
};

BuildInfo build_info();
const char* source_date();  // of the commit, such as 2026-05-31; empty outside a checkout

struct BuildPart {
  const char* key;      // in JSON
  const char* name;     // for people
  std::string version;  // empty: not in this program
};
std::vector<BuildPart> build_tools();      // compiler, kind of build, sanitizers
std::vector<BuildPart> build_libraries();  // OpenBLAS, oneDNN, MPI, CUDA, cuDNN, NCCL

}  // namespace stretto
