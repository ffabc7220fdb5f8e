// Verbs that read and write records: report.
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

}  // namespace
}  // namespace stretto
