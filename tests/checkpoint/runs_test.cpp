#include "checkpoint/runs.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "support/expect_error.h"

namespace stretto {
namespace {

// Shards of any cut, in any pieces, cover the unpadded parameter exactly once, and their compressed
// form says the same as the pieces.
RC_GTEST_PROP(Runs, ShardsCoverTheWholeOnce, ()) {
  const int64_t tp = *rc::gen::inRange<int64_t>(1, 5);
  const int64_t dp = *rc::gen::inRange<int64_t>(1, 5);
  ParameterSpec spec;
  spec.name = "p";
  spec.columns = tp * *rc::gen::inRange<int64_t>(1, 5);
  const auto block = [&] { return tp * *rc::gen::inRange<int64_t>(1, 5); };
  const Cut stacked = Cut::rows(block(), block(), block());  // once or more, as experts are
  const int64_t blocks = stacked.blocks[0] + stacked.blocks[1] + stacked.blocks[2];
  spec.rows = blocks * *rc::gen::inRange<int64_t>(1, 3);
  spec.cut = *rc::gen::element(Cut::rows(spec.rows), stacked, Cut::columns(), Cut::none());
  const bool padded = spec.cut == Cut::rows(spec.rows);
  const int64_t limit = spec.count() - (padded ? *rc::gen::inRange<int64_t>(0, spec.columns) : 0);
  std::vector<int> seen(static_cast<size_t>(spec.count()), 0);
  const int64_t count = shard_count(spec, tp);
  for (int64_t t = 0; t < (spec.cut == Cut::none() ? 1 : tp); ++t) {
    for (int64_t d = 0; d < dp; ++d) {
      const auto pieces = shard_pieces(spec, tp, t, count * d / dp, count * (d + 1) / dp, limit);
      const auto runs = compress_runs(pieces);
      int64_t total = 0;
      for (const ShardPiece& piece : pieces) total += piece.count;
      RC_ASSERT(element_count(runs) == total);
      const Placement placement{{spec.rows, spec.columns}, runs};
      RC_ASSERT(parse_placement(placement_text(placement), "p").runs == runs);
      for (const Run& run : expand_runs(runs)) {
        for (int64_t i = 0; i < run.count; ++i) ++seen[static_cast<size_t>(run.global_begin + i)];
      }
    }
  }
  for (int64_t i = 0; i < spec.count(); ++i) {
    RC_ASSERT(seen[static_cast<size_t>(i)] == (i < limit ? 1 : 0));
  }
}

TEST(Runs, ColumnsCostOneEntry) {
  ParameterSpec spec;
  spec.rows = 1000;
  spec.columns = 64;
  spec.cut = Cut::columns();
  EXPECT_EQ(compress_runs(shard_pieces(spec, 4, 1, 0, 16000, 64000)),
            (std::vector<StridedRun>{{16, 16, 64, 1000}}));
}

TEST(Runs, RefusesWhatLiesOutside) {
  for (const char* text :
       {"[]", "{}", R"({"shape":[4],"runs":[[0]]})", R"({"shape":[4],"runs":[[0,5]]})",
        R"({"shape":[4],"runs":[[4,1]]})", R"({"shape":[4],"runs":[[0,0]]})",
        R"({"shape":[4],"runs":[[0,2,1,2]]})", R"({"shape":[4],"runs":[[0,1,2,3]]})",
        R"({"shape":[4],"runs":[[0,1,4611686018427387904,4]]})",
        R"({"shape":[4],"runs":[[0,1,1,0]]})", R"({"shape":[-4],"runs":[]})",
        R"({"shape":[99999999999,99999999999],"runs":[]})", R"({"shape":[4],"runs":[[0,3],[2,2]]})",
        R"({"shape":[4],"runs":[[0,1,2,2],[1,1,1,3]]})"}) {
    EXPECT_ERROR(parse_placement(text, "p"), ExitCode::bad_data, "p");
  }
}

}  // namespace
}  // namespace stretto
