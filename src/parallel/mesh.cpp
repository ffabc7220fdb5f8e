#include "parallel/mesh.h"

#include <fmt/format.h>

#include "base/error.h"

namespace stretto {
namespace {

std::array<Axis, kAxes> axes_of(const std::string& order) {
  const auto axes = parse_rank_order(order);
  if (axes) return *axes;
  throw Error(ExitCode::bad_config, fmt::format("rank order '{}' of the mesh", order),
              "name dp, tp and pp once each, innermost first, as in 'tp,dp,pp'");
}

}  // namespace

Mesh::Mesh(int64_t dp, int64_t tp, int64_t pp, const std::string& order, int64_t shard_group)
    : order_(order) {
  constexpr int64_t kMax = 1 << 24;
  if (dp < 1 || tp < 1 || pp < 1 || dp > kMax || tp > kMax || pp > kMax || dp * tp > kMax ||
      dp * tp * pp > kMax) {
    throw Error(ExitCode::bad_config, fmt::format("a mesh of dp {}, tp {}, pp {}", dp, tp, pp),
                "each degree must be at least 1");
  }
  sizes_ = {static_cast<int>(dp), static_cast<int>(tp), static_cast<int>(pp)};
  int stride = 1;
  for (const Axis axis : axes_of(order)) {
    strides_[static_cast<size_t>(axis)] = stride;
    stride *= size(axis);
  }
  shard_group_ = shard_group == 0 ? static_cast<int>(dp) : static_cast<int>(shard_group);
  if (shard_group < 0 || shard_group > dp || dp % shard_group_ != 0) {
    throw Error(ExitCode::bad_config,
                fmt::format("a sharding group of {} ranks on a dp axis of {}", shard_group, dp),
                "use a divisor of dp, or 0 for all of it");
  }
}

Coordinates Mesh::coordinates(int rank) const {
  STRETTO_CHECK(0 <= rank && rank < ranks(), "rank {} of {}", rank, ranks());
  Coordinates at;
  for (const Axis axis : {Axis::dp, Axis::tp, Axis::pp}) {
    at[axis] = rank / strides_[static_cast<size_t>(axis)] % size(axis);
  }
  return at;
}

int Mesh::rank(const Coordinates& at) const {
  int rank = 0;
  for (const Axis axis : {Axis::dp, Axis::tp, Axis::pp}) {
    STRETTO_CHECK(0 <= at[axis] && at[axis] < size(axis), "{} {} of {}", name_of(axis), at[axis],
                  size(axis));
    rank += at[axis] * strides_[static_cast<size_t>(axis)];
  }
  return rank;
}

std::vector<int> Mesh::group(Axis axis, int of) const {
  Coordinates at = coordinates(of);
  std::vector<int> out;
  for (at[axis] = 0; at[axis] < size(axis); ++at[axis]) out.push_back(rank(at));
  return out;
}

int Mesh::group_index(Axis axis, int of) const {
  const int stride = strides_[static_cast<size_t>(axis)];
  return of / (stride * size(axis)) * stride + of % stride;
}

std::string Mesh::text() const { return fmt::format("dp{} x tp{} x pp{}", dp(), tp(), pp()); }

MeshComms make_mesh_comms(const Mesh& mesh, Comm& world) {
  if (world.size() != mesh.ranks()) {
    throw Error(ExitCode::bad_config,
                fmt::format("{} ranks for a mesh of {}, which needs {}", world.size(), mesh.text(),
                            mesh.ranks()),
                fmt::format("start {} ranks, or change parallel.dp, tp or pp", mesh.ranks()));
  }
  const int rank = world.rank();
  const Coordinates at = mesh.coordinates(rank);
  MeshComms comms;
  comms.world = &world;
  comms.dp = world.split(mesh.group_index(Axis::dp, rank), at.dp, "dp");
  comms.tp = world.split(mesh.group_index(Axis::tp, rank), at.tp, "tp");
  comms.pp = world.split(mesh.group_index(Axis::pp, rank), at.pp, "pp");
  const int shard = mesh.shard_group();
  comms.dp_shard = comms.dp->split(at.dp / shard, at.dp, "dp_shard");
  comms.dp_replica = comms.dp->split(at.dp % shard, at.dp, "dp_replica");
  const bool end = at.pp == 0 || at.pp == mesh.pp() - 1;
  comms.embedding = comms.pp->split(end ? 0 : -1, at.pp, "embedding");
  return comms;
}

}  // namespace stretto
