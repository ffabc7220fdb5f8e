// Which cuDNN is used, and what is said of the others. cuDNN itself is not needed.
#include "backend/cuda/cudnn_version.h"

#include <gtest/gtest.h>

namespace stretto::test {
namespace {

using cuda::cudnn_refusal;
using cuda::cudnn_version_text;

TEST(CudnnVersion, AsNvidiaWritesIt) {
  EXPECT_EQ(cudnn_version_text(91002), "9.10.2");
  EXPECT_EQ(cudnn_version_text(90300), "9.3.0");
  EXPECT_EQ(cudnn_version_text(8907), "8.9.7");  // until 8 a major version was 1000
}

TEST(CudnnVersion, UsedFrom9_3WithoutTheFaultyOnes) {
  for (const size_t used : {90300, 90501, 90999, 91002, 91100, 92500}) {
    EXPECT_EQ(cudnn_refusal(used), "") << used;
  }
}

TEST(CudnnVersion, SaysWhatWasFoundAndWhatIsWanted) {
  const auto says = [](size_t version, const char* words) {
    const std::string reason = cudnn_refusal(version);
    EXPECT_NE(reason.find(cudnn_version_text(version)), std::string::npos) << reason;
    EXPECT_NE(reason.find(words), std::string::npos) << reason;
  };
  says(8907, "9.3");
  says(90000, "9.3");
  says(90299, "9.3");
  says(91000, "9.10.2");
  says(91001, "9.10.2");
}

}  // namespace
}  // namespace stretto::test
