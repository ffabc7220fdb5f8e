#include "train/audit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace stretto {
namespace {

// What should be equal on the ranks of a group, where it lies.
struct Copy {
  std::string name;
  Backend* backend;
  ConstTensor values;
};

// Taken where the copies lie, the numbers fetched at once: memory of a device is not moved.
void add_checksums(std::vector<uint64_t>& sums, const std::vector<Copy>& copies, Backend& backend) {
  const auto n = static_cast<int64_t>(copies.size());
  const Buffer room = backend.allocate(copies.size() * sizeof(uint64_t), "checksums");
  const Tensor all(room.data(), DType::i32, {2 * n});
  backend.fill_zero(all);
  for (int64_t i = 0; i < n; ++i) {
    const Copy& copy = copies[static_cast<size_t>(i)];
    if (copy.backend == &backend) backend.checksum(all.slice(2 * i, 2 * i + 2), copy.values);
  }
  std::vector<uint64_t> here(copies.size());
  backend.copy_to_host(here.data(), all);
  for (size_t i = 0; i < here.size(); ++i) sums[i] += here[i];
}

std::vector<uint64_t> checksums(Trainer& trainer, const std::vector<Copy>& copies) {
  std::vector<uint64_t> sums(copies.size());
  Backend& device = trainer.backend();
  Backend& host = trainer.optimizer().state_backend();  // another one where state is offloaded
  add_checksums(sums, copies, device);
  if (&host != &device) add_checksums(sums, copies, host);
  return sums;
}

using NamedState = std::vector<std::pair<std::string, Tensor>>;

// The optimizer's state by the names that checkpoints use, with the master; nothing where ranks
// share it.
NamedState replicated_state(Trainer& trainer) {
  if (trainer.gpt().shape().zero > 0) return {};
  NamedState all;
  for (const char* name : {"master", "m", "v"}) {
    const Tensor state = trainer.optimizer().state(name);
    if (!state.none()) all.emplace_back(fmt::format("optimizer.{}.", name), state);
  }
  return all;
}

// One parameter as this rank holds it, and its optimizer state, which lies as the weights do where
// nothing is sharded.
std::vector<Copy> copies_of(Trainer& trainer, const NamedState& states, const FlatUnit& unit,
                            const FlatParameter& parameter) {
  const Gpt& gpt = trainer.gpt();
  const Tensor weights = trainer.gpt().memory().at("weights");
  const FlatRange range = {parameter.offset, parameter.offset + parameter.count};
  std::vector<Copy> copies;
  if (gpt.shape().zero < 3) {
    copies.push_back(
        {parameter.spec.name, &trainer.backend(), weights.slice(range.begin, range.end)});
  } else {
    for (const OwnedStretch& s :
         owned_stretches(unit, range, gpt.layout().dp, gpt.comms().dp->rank())) {
      copies.push_back({parameter.spec.name, &trainer.backend(),
                        weights.slice(s.shard_begin, s.shard_begin + s.count)});
    }
  }
  for (const auto& [prefix, state] : states) {
    copies.push_back({prefix + parameter.spec.name, &trainer.optimizer().state_backend(),
                      state.slice(range.begin, range.end)});
  }
  return copies;
}

std::vector<int> world_ranks(const std::vector<int>& group, const std::vector<int>& positions) {
  std::vector<int> ranks;
  for (const int p : positions) ranks.push_back(group[static_cast<size_t>(p)]);
  return ranks;
}

std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

[[noreturn]] void report(const Trainer& trainer, const std::string& tensor, const char* axis,
                         const std::vector<int>& group, const std::vector<int>& odd, int64_t step) {
  const std::vector<int> bad = world_ranks(group, odd);
  std::vector<int> good;
  for (const int rank : group) {
    if (std::find(bad.begin(), bad.end(), rank) == bad.end()) good.push_back(rank);
  }
  const std::string who =
      good.empty() ? fmt::format("{} hold different copies of {}", ranks_text(bad), tensor)
                   : fmt::format("{} of {} differs from the copies of {}", tensor, ranks_text(bad),
                                 ranks_text(good));
  throw Error(ExitCode::internal,
              fmt::format("replica audit after step {}: {} (over {}, {})", step, who, axis,
                          trainer.mesh().text()),
              "resume from a checkpoint before this step; if the same rank is named again, its "
              "memory is at fault");
}

// `group`: world ranks by their rank in `comm`. Nothing is read where there is nobody to compare
// with.
void compare(Trainer& trainer, Comm& comm, const char* axis, const std::vector<int>& group,
             const std::vector<Copy>& copies) {
  const auto n = static_cast<int64_t>(copies.size());
  if (comm.size() == 1 || n == 0) return;
  const std::vector<uint64_t> mine = checksums(trainer, copies);
  std::vector<uint64_t> all(static_cast<size_t>(n * comm.size()));
  // Moved as pairs of 32 bits: there is no 64-bit integer type.
  comm.all_gather(Tensor(all.data(), DType::i32, {comm.size(), 2 * n}),
                  ConstTensor(mine.data(), DType::i32, {2 * n}));
  for (int64_t i = 0; i < n; ++i) {
    std::vector<uint64_t> found;
    for (int r = 0; r < comm.size(); ++r) found.push_back(all[static_cast<size_t>(r * n + i)]);
    const std::vector<int> odd = odd_ones(found);
    if (!odd.empty()) {
      report(trainer, copies[static_cast<size_t>(i)].name, axis, group, odd, trainer.state().step);
    }
  }
}

}  // namespace

std::vector<int> odd_ones(const std::vector<uint64_t>& digests) {
  size_t most = 0;
  size_t rivals = 0;  // positions whose digest is as frequent as the most frequent one
  uint64_t usual = 0;
  for (const uint64_t digest : digests) {
    const auto count = static_cast<size_t>(std::count(digests.begin(), digests.end(), digest));
    if (count > most) {
      most = count;
      rivals = 0;
      usual = digest;
    }
    rivals += count == most ? 1 : 0;
  }
  std::vector<int> odd;
  const bool undecided = rivals > most;
  for (size_t i = 0; i < digests.size(); ++i) {
    if (undecided || digests[i] != usual) odd.push_back(static_cast<int>(i));
  }
  return odd;
}

void audit_replicas(Trainer& trainer) {
  const Gpt& gpt = trainer.gpt();
  const Mesh& mesh = trainer.mesh();
  const int me = trainer.world().rank();
  const NamedState states = replicated_state(trainer);
  std::vector<Copy> all, replicated, tied;
  const auto append = [](std::vector<Copy>& to, const std::vector<Copy>& copies) {
    to.insert(to.end(), copies.begin(), copies.end());
  };
  for (const FlatUnit& unit : gpt.layout().units) {
    for (const FlatParameter& parameter : unit.parameters) {
      const std::vector<Copy> copies = copies_of(trainer, states, unit, parameter);
      append(all, copies);
      if (parameter.offset >= unit.replicated) append(replicated, copies);
      if (unit.name == "wte") append(tied, copies);
    }
  }
  const MeshComms& comms = trainer.comms();
  const std::vector<int> dp = mesh.group(Axis::dp, me);
  if (gpt.shape().zero < 3) {
    compare(trainer, *comms.dp, "dp", dp, all);
  } else {
    std::vector<int> holders;  // of the same part
    for (int r = trainer.at().dp % mesh.shard_group(); r < mesh.dp(); r += mesh.shard_group()) {
      holders.push_back(dp[static_cast<size_t>(r)]);
    }
    compare(trainer, *comms.dp_replica, "dp_replica", holders, all);
  }
  compare(trainer, *comms.tp, "tp", mesh.group(Axis::tp, me), replicated);
  if (gpt.comms().ends != nullptr) {
    const std::vector<int> stages = mesh.group(Axis::pp, me);
    compare(trainer, *comms.embedding, "pipeline ends", {stages.front(), stages.back()}, tied);
  }
}

}  // namespace stretto
