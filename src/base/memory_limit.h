// How much memory this process may use, where that is less than the machine has.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace stretto {

// Bytes: the least limit of its control groups (a container, a job of Slurm); none without one.
std::optional<int64_t> memory_limit();

// The same from the text of /proc/self/cgroup and a reader of files (empty where there is none), so
// that tests need no other machine.
std::optional<int64_t> memory_limit(std::string_view groups,
                                    const std::function<std::string(const std::string&)>& read);

}  // namespace stretto
