#include "bench/program_facts.h"

#include <fmt/format.h>

#include <string>

#include "bench/build_info.h"
#include "comm/mpi.h"

namespace stretto {

std::vector<Fact> program_facts() {
  const BuildInfo build = build_info();
  std::vector<Fact> facts = {{"version of the program", build.version}};
  for (const BuildPart& part : build_parts()) {
    facts.push_back({fmt::format("{} of the program", part.name),
                     part.version.empty() ? "none" : part.version});
  }
  // The words after the version name the kernels for this processor. They may differ.
  const size_t version = build.libraries.find(' ');
  const size_t end =
      version == std::string::npos ? version : build.libraries.find(' ', version + 1);
  facts.push_back({"loaded BLAS library", build.libraries.substr(0, end)});
  facts.push_back({"loaded MPI library", mpi_version()});
  return facts;
}

}  // namespace stretto
