#include "parallel/mesh.h"

#include <gtest/gtest.h>

#include <set>

#include "comm/threads.h"
#include "config/reader.h"
#include "config/rules.h"

namespace stretto {
namespace {

const char* const kOrders[] = {"tp,dp,pp", "tp,pp,dp", "dp,tp,pp",
                               "dp,pp,tp", "pp,tp,dp", "pp,dp,tp"};

TEST(Mesh, CoordinatesAndRanksAreInverse) {
  for (const char* order : kOrders) {
    const Mesh mesh(3, 2, 4, order);
    std::set<int> seen;
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
      EXPECT_EQ(mesh.rank(mesh.coordinates(rank)), rank);
      seen.insert(mesh.rank(mesh.coordinates(rank)));
    }
    EXPECT_EQ(seen.size(), 24u);
  }
}

TEST(Mesh, InnermostAxisHasNeighbouringRanks) {
  EXPECT_EQ(Mesh(2, 2, 2, "tp,dp,pp").group(Axis::tp, 5), (std::vector<int>{4, 5}));
  EXPECT_EQ(Mesh(2, 2, 2, "tp,dp,pp").group(Axis::dp, 5), (std::vector<int>{5, 7}));
  EXPECT_EQ(Mesh(2, 2, 2, "tp,dp,pp").group(Axis::pp, 5), (std::vector<int>{1, 5}));
  EXPECT_EQ(Mesh(2, 2, 2, "pp,dp,tp").group(Axis::pp, 5), (std::vector<int>{4, 5}));
}

TEST(Mesh, GroupIndexIsEqualWithinAGroupOnly) {
  for (const char* order : kOrders) {
    const Mesh mesh(3, 2, 4, order);
    for (const Axis axis : {Axis::dp, Axis::tp, Axis::pp}) {
      for (int a = 0; a < mesh.ranks(); ++a) {
        for (int b = 0; b < mesh.ranks(); ++b) {
          EXPECT_EQ(mesh.group_index(axis, a) == mesh.group_index(axis, b),
                    mesh.group(axis, a) == mesh.group(axis, b));
        }
      }
    }
  }
}

TEST(Mesh, RefusesWithAFix) {
  EXPECT_THROW(Mesh(0, 1, 1), Error);
  EXPECT_THROW(Mesh(1 << 20, 1 << 20, 1), Error);
  EXPECT_THROW(Mesh(4, 1, 1, "tp,dp,pp", 3), Error);
  for (const char* order : {"", "tp", "tp,dp", "tp,dp,dp", "tp,dp,pp,", "tp,dp,pp,tp", "t p,dp,pp",
                            ",tp,dp,pp", "tp dp pp"}) {
    EXPECT_THROW(Mesh(1, 1, 1, order), Error) << order;
  }
}

// What the configuration's rule lets through, the ranks can be placed by; and nothing else.
TEST(Mesh, TakesTheOrdersThatTheRuleTakes) {
  Config config = load_config({"tiny"}).config;
  int taken = 0;
  for (const char* order :
       {"tp,dp,pp", "tp, dp, pp", " pp ,dp,tp ", "t p,dp,pp", "tp,dp", "tp,dp,dp", "tp,dp,pp,",
        ",tp,dp,pp", "TP,dp,pp", "tp,\tdp,pp", "", " ", ",,"}) {
    config.parallel.order = order;
    if (is_valid(config)) {
      ++taken;
      EXPECT_EQ(Mesh(2, 2, 2, order).ranks(), 8) << order;
    } else {
      EXPECT_THROW(Mesh(2, 2, 2, order), Error) << order;
    }
  }
  EXPECT_EQ(taken, 3);
  EXPECT_EQ(Mesh(2, 2, 2, " pp, dp, tp").group(Axis::pp, 5), (std::vector<int>{4, 5}));
}

void check_comms(const Mesh& mesh, Comm& world) {
  const MeshComms comms = make_mesh_comms(mesh, world);
  const Coordinates at = mesh.coordinates(world.rank());
  const std::pair<Axis, Comm*> axes[] = {
      {Axis::dp, comms.dp.get()}, {Axis::tp, comms.tp.get()}, {Axis::pp, comms.pp.get()}};
  for (const auto& [axis, comm] : axes) {
    ASSERT_EQ(comm->size(), mesh.size(axis));
    EXPECT_EQ(comm->rank(), at[axis]);
    int32_t own = world.rank();
    std::vector<int32_t> members(static_cast<size_t>(comm->size()));
    comm->all_gather({members.data(), DType::i32, {comm->size()}}, {&own, DType::i32, {1}});
    EXPECT_EQ(members, mesh.group(axis, world.rank()));
  }
  EXPECT_EQ(comms.dp_shard->size(), mesh.shard_group());
  EXPECT_EQ(comms.dp_shard->rank(), at.dp % mesh.shard_group());
  EXPECT_EQ(comms.dp_replica->size(), mesh.dp() / mesh.shard_group());
  const bool end = at.pp == 0 || at.pp == mesh.pp() - 1;
  ASSERT_EQ(comms.embedding != nullptr, end);
  if (end) {
    EXPECT_EQ(comms.embedding->size(), mesh.pp() == 1 ? 1 : 2);
  }
}

TEST(MeshComms, GroupsAreThoseOfTheMesh) {
  const Mesh meshes[] = {{1, 1, 1}, {4, 1, 1, "tp,dp,pp", 2}, {2, 2, 2}, {1, 2, 3, "pp,dp,tp"}};
  for (const Mesh& mesh : meshes) {
    run_thread_ranks(mesh.ranks(), [&](Comm& world) { check_comms(mesh, world); });
  }
  check_comms(Mesh(1, 1, 1), *make_self_comm());
}

TEST(MeshComms, WrongNumberOfRanksIsNamed) {
  EXPECT_THROW(make_mesh_comms(Mesh(2, 1, 1), *make_self_comm()), Error);
}

}  // namespace
}  // namespace stretto
