// Seconds of messages and collectives, from the bytes that pass the narrowest link.
#include "plan/network.h"

#include <gtest/gtest.h>

#include "plan_support.h"

namespace stretto::plan {
namespace {

constexpr double kBytes = 1e9;

// Three levels of switches. The middle one is the slowest to answer, the top one the narrowest.
Place three_tiers() {
  Place p = place("h100", "stretto");
  p.cluster.link_bandwidth = 1e11;
  p.cluster.link_latency = 1e-6;
  p.cluster.tiers = {{"leaf", 4, 4e10, 1e-5}, {"spine", 16, 5e10, 7e-5}, {"core", 0, 1e10, 3e-5}};
  for (const Constant id : {Constant::link, Constant::net}) p.stack.constants.set(id, 0.5);
  p.stack.constants.set(Constant::rail, 0.4);
  return p;
}

double gather(const Place& p, const Group& group) {
  return gather_seconds(p.cluster, p.stack, group, kBytes);
}

// One rank on each node: the ring passes every uplink once.
double ring(double nodes, double rate, double latency) {
  return kBytes * (nodes - 1) / nodes / (0.5 * rate) + ring_hops(nodes) * latency;
}

TEST(Network, AGroupPaysForTheNarrowestTierThatItCrosses) {
  const Place p = three_tiers();
  const auto apart = [&](int64_t nodes) { return gather(p, {nodes, 1, 1}); };
  EXPECT_DOUBLE_EQ(apart(2), ring(2, 4e10, 1e-5));
  EXPECT_DOUBLE_EQ(apart(4), ring(4, 4e10, 1e-5)) << "all below one leaf switch";
  EXPECT_DOUBLE_EQ(apart(5), ring(5, 4e10, 7e-5)) << "the leaf stays the narrowest";
  EXPECT_DOUBLE_EQ(apart(16), ring(16, 4e10, 7e-5));
  EXPECT_DOUBLE_EQ(apart(17), ring(17, 1e10, 7e-5)) << "the spine stays the slowest to answer";
  EXPECT_DOUBLE_EQ(apart(5000), ring(5000, 1e10, 7e-5));
}

TEST(Network, ATierWithoutALimitIsTheLast) {
  Place p = three_tiers();
  p.cluster.tiers[0].nodes = 0;
  EXPECT_DOUBLE_EQ(gather(p, {100, 1, 1}), ring(100, 4e10, 1e-5));
}

TEST(Network, OneRankSendsNothing) {
  const Place p = three_tiers();
  EXPECT_EQ(gather(p, {1, 1, 1}), 0);
  EXPECT_EQ(gather_seconds(p.cluster, p.stack, {8, 8, 1}, 0), 0);
}

TEST(Network, InsideANodeTheLinkCounts) {
  const Place p = three_tiers();
  EXPECT_DOUBLE_EQ(gather(p, {8, 8, 1}), kBytes * 7 / 8 / 5e10 + 7 * 1e-6);
}

// A ring that enters a node at one device and leaves it at another leaves ports idle, and shares
// the uplink with the rings of other groups.
TEST(Network, RingsOfANodeShareItsUplink) {
  const Place p = three_tiers();
  const auto across = [&](int64_t rings, int64_t per_node) {
    const double idle = 0.4 * (1 - 1 / static_cast<double>(per_node));
    return kBytes * 3 / 4 * static_cast<double>(rings) / 2e10 * (1 + idle) + ring_hops(4) * 1e-5 +
           static_cast<double>(per_node - 1) * 1e-6;
  };
  EXPECT_DOUBLE_EQ(gather(p, {4, 1, 8}), across(8, 1));
  EXPECT_DOUBLE_EQ(gather(p, {8, 2, 4}), across(4, 2));
  EXPECT_DOUBLE_EQ(gather(p, {32, 8, 1}), across(1, 8));
  EXPECT_DOUBLE_EQ(gather(p, {31, 8, 1}), across(1, 8)) << "a node that is not full is a node";
  Place narrow = p;  // links so slow that they decide
  narrow.cluster.link_bandwidth = 1e9;
  EXPECT_DOUBLE_EQ(gather(narrow, {32, 8, 1}),
                   kBytes * 31 / 32 / 5e8 + ring_hops(4) * 1e-5 + 7 * 1e-6);
}

TEST(Network, ASumIsTwoGathers) {
  const Place p = three_tiers();
  for (const Group& g : {Group{8, 8, 1}, Group{32, 8, 1}, Group{6, 1, 8}}) {
    EXPECT_DOUBLE_EQ(all_reduce_seconds(p.cluster, p.stack, g, kBytes), 2 * gather(p, g));
  }
}

// Trees above a few nodes.
TEST(Network, HopsGrowWithTheLogarithm) {
  EXPECT_DOUBLE_EQ(ring_hops(1), 0);
  EXPECT_DOUBLE_EQ(ring_hops(8), 7);
  EXPECT_DOUBLE_EQ(ring_hops(1024), 28);
}

TEST(Network, AMessageTakesTheLinkOrItsShareOfTheUplink) {
  const Place p = three_tiers();
  EXPECT_DOUBLE_EQ(send_seconds(p.cluster, p.stack, true, kBytes, 8), kBytes / 5e10 + 1e-6);
  EXPECT_DOUBLE_EQ(send_seconds(p.cluster, p.stack, false, kBytes, 1), kBytes / 2e10 + 1e-5);
  EXPECT_DOUBLE_EQ(send_seconds(p.cluster, p.stack, false, kBytes, 8), 8 * kBytes / 2e10 + 1e-5);
}

}  // namespace
}  // namespace stretto::plan
