// Mesh: which rank sits where on the axes dp, tp and pp. A value: nothing parallel is global.
//
// For the model author:
//     const Mesh mesh(config.parallel);                 // or Mesh(dp, tp, pp, "tp,dp,pp")
//     MeshComms comms = make_mesh_comms(mesh, world);   // collective over the world
//     const Coordinates me = mesh.coordinates(world.rank());
//     comms.tp->all_reduce(out);                        // always there, of size 1 when unused
//     if (me.pp == 0) ...                               // first stage
//     if (comms.embedding) ...                          // only on the first and last stage
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "account/rank_order.h"
#include "account/topology.h"
#include "comm/comm.h"

namespace stretto {

struct Coordinates {
  int dp = 0;
  int tp = 0;
  int pp = 0;

  int operator[](Axis axis) const { return axis == Axis::dp ? dp : axis == Axis::tp ? tp : pp; }
  int& operator[](Axis axis) { return axis == Axis::dp ? dp : axis == Axis::tp ? tp : pp; }
  bool operator==(const Coordinates&) const = default;
};

class Mesh {
 public:
  // `order` names the three axes, innermost first: neighbours on the innermost axis are
  // neighbouring ranks. `shard_group` (hybrid sharding): how many consecutive dp coordinates share
  // one copy of the model; 0 = all of dp.
  Mesh(int64_t dp, int64_t tp, int64_t pp, const std::string& order = "tp,dp,pp",
       int64_t shard_group = 0);
  explicit Mesh(const Topology& topology)
      : Mesh(topology.dp, topology.tp, topology.pp, topology.order, topology.zero_group) {}

  int dp() const { return size(Axis::dp); }
  int tp() const { return size(Axis::tp); }
  int pp() const { return size(Axis::pp); }
  int size(Axis axis) const { return sizes_[static_cast<size_t>(axis)]; }
  int ranks() const { return dp() * tp() * pp(); }
  int shard_group() const { return shard_group_; }
  const std::string& order() const { return order_; }

  Coordinates coordinates(int rank) const;
  int rank(const Coordinates& at) const;

  // The ranks that differ from `rank` on this axis only, ordered by their coordinate on it.
  std::vector<int> group(Axis axis, int rank) const;
  // The number of that group among all groups of the axis; equal exactly for ranks of one group.
  int group_index(Axis axis, int rank) const;

  std::string text() const;  // "dp2 x tp2 x pp1"

 private:
  std::array<int, kAxes> sizes_;    // by Axis
  std::array<int, kAxes> strides_;  // by Axis
  std::string order_;
  int shard_group_;
};

// One rank's communicators. Its rank in each of them is its coordinate on that axis.
struct MeshComms {
  Comm* world = nullptr;  // not owned
  std::unique_ptr<Comm> dp;
  std::unique_ptr<Comm> tp;
  std::unique_ptr<Comm> pp;
  // Hybrid sharding divides the dp axis: dp_shard joins the ranks that hold the shards of one copy,
  // dp_replica those that hold the same shard of different copies. Without it dp_shard is all of
  // dp, and dp_replica is one rank.
  std::unique_ptr<Comm> dp_shard;
  std::unique_ptr<Comm> dp_replica;
  // Joins first and last stage of one pipeline, for the gradient of a tied embedding; rank 0 is the
  // first stage. nullptr on the stages between, of size 1 where pp is 1.
  std::unique_ptr<Comm> embedding;
};

// Collective over `world`, whose size must be mesh.ranks().
MeshComms make_mesh_comms(const Mesh& mesh, Comm& world);

}  // namespace stretto
