// How much of the machine this process may use if its control groups (a container, a Slurm job)
// limit it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace stretto {

std::optional<int64_t> memory_limit();  // bytes
std::optional<double> core_limit();     // seconds of processor time per second

// The same from the text of /proc/self/cgroup and a function that reads files ("" for a missing
// one), so that tests can describe other machines.
using KernelFile = std::function<std::string(const std::string&)>;
std::optional<int64_t> memory_limit(std::string_view groups, const KernelFile& read);
std::optional<double> core_limit(std::string_view groups, const KernelFile& read);

// cgroup v2 cpu.max: "200000 100000" -> 2 processors, "max ..." -> none.
std::optional<double> read_cpu_max(std::string_view text);

}  // namespace stretto
