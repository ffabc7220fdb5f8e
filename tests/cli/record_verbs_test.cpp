// Verbs that read and write records: bench, report.
#include "bench/sample_record.h"
#include "support/run_verb.h"
#include "support/temp_dir.h"

namespace stretto {
namespace {

TEST(RecordVerbs, ReportOfOneRecordLiesBesideIt) {
  const TempDir dir;
  write_record(posix_fs(), dir / "run.json", sample_record());
  const VerbAnswer answer = run_verb({"report", dir / "run.json"});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(answer.out, (dir / "report.html") + "\n");
  EXPECT_TRUE(std::filesystem::exists(dir / "report.html"));
}

// The machine is read right before measuring, which must not be for nothing.
TEST(RecordVerbs, BenchLooksForRoomForItsRecordFirst) {
  const TempDir dir;
  const std::string file = dir.write("file", "");
  for (const std::string& out : {dir.path(), file + "/run.json"}) {
    const VerbAnswer answer =
        run_verb({"bench", "tiny", "--machine", dir / "missing.json", "--out", out});
    EXPECT_EQ(answer.code, 73) << out << ": " << answer.err;
  }
  EXPECT_EQ(
      run_verb({"bench", "tiny", "--machine", dir / "missing.json", "--out", dir / "a/b.json"})
          .code,
      66);
  EXPECT_TRUE(std::filesystem::is_empty(dir / "a"));
}

}  // namespace
}  // namespace stretto
