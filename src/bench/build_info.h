// What this program was built from: part of every record, because other builds are other results.
#pragma once

#include <string>

namespace stretto {

struct BuildInfo {
  std::string version;
  std::string commit;  // "unknown" outside a checkout; "-dirty" when files differ from it
  std::string compiler;
  std::string flags;
  std::string libraries;  // versions of what computes: OpenBLAS, oneDNN, MPI

  bool operator==(const BuildInfo&) const = default;
  // Of the program alone; its libraries may be others.
  std::string program() const { return version + commit + compiler + flags; }
};

BuildInfo build_info();

}  // namespace stretto
