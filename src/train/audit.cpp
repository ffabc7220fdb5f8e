#include "train/audit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace stretto {
namespace {

constexpr int64_t kChunkBytes = 1 << 20;  // copied from the device at a time

class Hasher {
 public:
  explicit Hasher(Trainer& trainer) : trainer_(trainer), chunk_(kChunkBytes) {}

  // The bytes of one parameter that this rank holds.
  uint64_t weights(const FlatUnit& unit, const FlatParameter& parameter) {
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    const Gpt& gpt = trainer_.gpt();
    const Tensor flat = trainer_.gpt().memory().at("weights");
    const FlatRange range = {parameter.offset, parameter.offset + parameter.count};
    if (gpt.shape().zero < 3) {
      add(state, trainer_.backend(), flat.slice(range.begin, range.end));
    } else {
      for (const OwnedStretch& s :
           owned_stretches(unit, range, gpt.layout().dp, gpt.comms().dp->rank())) {
        add(state, trainer_.backend(), flat.slice(s.shard_begin, s.shard_begin + s.count));
      }
    }
    return XXH3_64bits_digest(&state);
  }

  // Of the optimizer's state, which lies as the weights do where nothing is sharded.
  uint64_t state(ConstTensor flat, const FlatParameter& parameter) {
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    add(state, trainer_.optimizer().state_backend(),
        flat.slice(parameter.offset, parameter.offset + parameter.count));
    return XXH3_64bits_digest(&state);
  }

 private:
  void add(XXH3_state_t& state, Backend& backend, ConstTensor values) {
    if (backend.host_memory()) {
      XXH3_64bits_update(&state, values.data(), values.bytes());
      return;
    }
    const int64_t step = kChunkBytes / static_cast<int64_t>(dtype_size(values.dtype()));
    for (int64_t begin = 0; begin < values.count(); begin += step) {
      const ConstTensor part = values.slice(begin, std::min(begin + step, values.count()));
      backend.copy_to_host(chunk_.data(), part);
      XXH3_64bits_update(&state, chunk_.data(), part.bytes());
    }
  }

  Trainer& trainer_;
  std::vector<char> chunk_;
};

struct Copies {
  std::vector<std::string> names;
  std::vector<uint64_t> digests;  // of this rank

  void add(const std::string& name, uint64_t digest) {
    names.push_back(name);
    digests.push_back(digest);
  }
};

// The optimizer's state by the names that checkpoints use, with the master; nothing where ranks
// share it.
std::vector<std::pair<std::string, Tensor>> replicated_state(Trainer& trainer) {
  if (trainer.gpt().shape().zero > 0) return {};
  std::vector<std::pair<std::string, Tensor>> all;
  for (const char* name : {"master", "m", "v"}) {
    const Tensor state = trainer.optimizer().state(name);
    if (!state.none()) all.emplace_back(fmt::format("optimizer.{}.", name), state);
  }
  return all;
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

// `group`: world ranks by their rank in `comm`.
void compare(Trainer& trainer, Comm& comm, const char* axis, const std::vector<int>& group,
             const Copies& mine) {
  const auto n = static_cast<int64_t>(mine.digests.size());
  if (comm.size() == 1 || n == 0) return;
  std::vector<uint64_t> all(static_cast<size_t>(n * comm.size()));
  // Moved as pairs of 32 bits: there is no 64-bit integer type.
  comm.all_gather(Tensor(all.data(), DType::i32, {comm.size(), 2 * n}),
                  ConstTensor(mine.digests.data(), DType::i32, {2 * n}));
  for (int64_t i = 0; i < n; ++i) {
    std::vector<uint64_t> copies;
    for (int r = 0; r < comm.size(); ++r) copies.push_back(all[static_cast<size_t>(r * n + i)]);
    const std::vector<int> odd = odd_ones(copies);
    if (!odd.empty()) {
      report(trainer, mine.names[static_cast<size_t>(i)], axis, group, odd, trainer.state().step);
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
  Hasher hasher(trainer);
  const Gpt& gpt = trainer.gpt();
  const Mesh& mesh = trainer.mesh();
  const int me = trainer.world().rank();
  const auto state = replicated_state(trainer);
  Copies all, replicated, tied;
  for (const FlatUnit& unit : gpt.layout().units) {
    for (const FlatParameter& parameter : unit.parameters) {
      const auto add = [&](const std::string& name, uint64_t digest) {
        all.add(name, digest);
        if (mesh.tp() > 1 && parameter.offset >= unit.replicated) replicated.add(name, digest);
        if (unit.name == "wte") tied.add(name, digest);
      };
      add(parameter.spec.name, hasher.weights(unit, parameter));
      for (const auto& [prefix, flat] : state) {
        add(prefix + parameter.spec.name, hasher.state(flat, parameter));
      }
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
