#include "train/audit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace stretto {
namespace {

// One tensor that every rank of a group should hold with the same values, and the backend whose
// memory it is in.
struct Copy {
  std::string name;
  Backend* backend;
  ConstTensor values;
};

// The backend that holds a copy computes its checksum; only checksums go to the host, as many at a
// time as `room` holds.
void add_checksums(std::vector<uint64_t>& sums, const std::vector<Copy>& copies, Backend& backend,
                   Tensor room) {
  const size_t most = room.bytes() / sizeof(uint64_t);
  std::vector<uint64_t> here(std::min(copies.size(), most));
  for (size_t begin = 0; begin < copies.size(); begin += most) {
    const size_t count = std::min(most, copies.size() - begin);
    const Tensor part(room.data(), DType::i32, {2 * static_cast<int64_t>(count)});
    backend.fill_zero(part);
    for (size_t i = 0; i < count; ++i) {
      const Copy& copy = copies[begin + i];
      const auto at = 2 * static_cast<int64_t>(i);
      if (copy.backend == &backend) backend.checksum(part.slice(at, at + 2), copy.values);
    }
    backend.copy_to_host(here.data(), part);
    for (size_t i = 0; i < count; ++i) sums[begin + i] += here[i];
  }
}

// On a device the checksums use the memory in which a step gathers statistics of its gradients. An
// allocation of their own would be freed while ranks of other groups already train on; where one
// process drives all GPUs, freeing waits for those GPUs, whose work may wait for this rank.
std::vector<uint64_t> checksums(Trainer& trainer, const std::vector<Copy>& copies) {
  std::vector<uint64_t> sums(copies.size());
  Backend& device = trainer.backend();
  Backend& host = trainer.optimizer().state_backend();  // another one where state is offloaded
  add_checksums(sums, copies, device, trainer.gpt().memory().at("stats.pieces"));
  if (&host == &device) return sums;
  std::vector<uint64_t> room(copies.size());
  add_checksums(sums, copies, host,
                {room.data(), DType::i32, {2 * static_cast<int64_t>(room.size())}});
  return sums;
}

// One kind of value (weights, masters, moments): each parameter has one.
struct Kind {
  std::string prefix;  // put before the parameter's name, as in checkpoints
  Backend* backend;
  Tensor flat;
  bool sharded;  // cut over dp, or over the ranks of a sharding group
};

std::vector<Kind> kinds_of(Trainer& trainer) {
  const int64_t zero = trainer.gpt().shape().zero;
  std::vector<Kind> all = {
      {"", &trainer.backend(), trainer.gpt().memory().at("weights"), zero >= 3}};
  Optimizer& optimizer = trainer.optimizer();
  for (const char* name : {"master", "m", "v"}) {
    const Tensor state = optimizer.state(name);
    if (state.none()) continue;
    all.push_back(
        {fmt::format("optimizer.{}.", name), &optimizer.state_backend(), state, zero >= 1});
  }
  return all;
}

// Adds what this rank holds of one parameter: all of it, or the stretches that it owns.
void add_copies(std::vector<Copy>& copies, const Gpt& gpt, const Kind& kind, const FlatUnit& unit,
                const FlatParameter& parameter) {
  const FlatRange range = {parameter.offset, parameter.offset + parameter.count};
  const auto add = [&](int64_t begin, int64_t end) {
    copies.push_back(
        {kind.prefix + parameter.spec.name, kind.backend, kind.flat.slice(begin, end)});
  };
  if (!kind.sharded) return add(range.begin, range.end);
  for (const OwnedStretch& s :
       owned_stretches(unit, range, gpt.layout().dp, gpt.comms().dp->rank())) {
    add(s.shard_begin, s.shard_begin + s.count);
  }
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

// `group` holds the world rank of each rank of `comm`. Does nothing where a rank is alone in `comm`
// or has no copies.
void compare(Trainer& trainer, Comm& comm, const char* axis, const std::vector<int>& group,
             const std::vector<Copy>& copies) {
  const auto n = static_cast<int64_t>(copies.size());
  if (comm.size() == 1 || n == 0) return;
  const std::vector<uint64_t> mine = checksums(trainer, copies);
  std::vector<uint64_t> all(static_cast<size_t>(n * comm.size()));
  // Sent as pairs of 32-bit numbers, because Comm has no 64-bit integer type.
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
  const MeshComms& comms = trainer.comms();
  const std::vector<Kind> kinds = kinds_of(trainer);
  std::vector<Copy> whole, parts, replicated, tied;
  for (const FlatUnit& unit : gpt.layout().units) {
    for (const FlatParameter& parameter : unit.parameters) {
      for (const Kind& kind : kinds) {
        add_copies(kind.sharded ? parts : whole, gpt, kind, unit, parameter);
        if (unit.part_of(parameter).group == Group::tensor) {
          add_copies(replicated, gpt, kind, unit, parameter);
        }
        if (unit.role == Role::tokens) add_copies(tied, gpt, kind, unit, parameter);
      }
    }
  }
  const int me = trainer.world().rank();
  const std::vector<int> dp = mesh.group(Axis::dp, me);
  compare(trainer, *comms.dp, "dp", dp, whole);
  std::vector<int> same_part;
  for (int r = trainer.at().dp % mesh.shard_group(); r < mesh.dp(); r += mesh.shard_group()) {
    same_part.push_back(dp[static_cast<size_t>(r)]);
  }
  compare(trainer, *comms.dp_replica, "dp_replica", same_part, parts);
  compare(trainer, *comms.tp, "tp", mesh.group(Axis::tp, me), replicated);
  if (gpt.comms().ends != nullptr) {
    const std::vector<int> stages = mesh.group(Axis::pp, me);
    compare(trainer, *comms.embedding, "pipeline ends", {stages.front(), stages.back()}, tied);
  }
}

}  // namespace stretto
