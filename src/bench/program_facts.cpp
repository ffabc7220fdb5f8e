#include "bench/program_facts.h"

#include <fmt/format.h>

#include <string>

#include "bench/build_info.h"
#include "comm/mpi.h"

namespace stretto {

std::vector<Fact> program_facts() {
  std::vector<Fact> facts = {{"version of the program", build_info().version}};
  for (const BuildPart& part : build_parts()) {
    facts.push_back({fmt::format("{} of the program", part.name),
                     part.version.empty() ? "none" : part.version});
  }
  facts.push_back({"loaded MPI library", mpi_version()});
  return facts;
}

}  // namespace stretto
