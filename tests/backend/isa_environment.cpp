// STRETTO_TEST_ISA=avx2 or portable makes every kernel of this program use that instruction set
// instead of the best one of the machine.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdlib>
#include <string>

namespace stretto::test {
namespace {

class IsaEnvironment : public ::testing::Environment {
 public:
  void SetUp() override {
    const char* text = std::getenv("STRETTO_TEST_ISA");
    if (text == nullptr) return;
    const std::string isa = text;
    ASSERT_TRUE(isa == "avx2" || isa == "portable") << "STRETTO_TEST_ISA=" << isa;
    if (isa == "avx2" && (hwy::SupportedTargets() & HWY_AVX2) == 0) {
      GTEST_SKIP() << "no AVX2 here";
    }
    // The kernels are compiled for no target between AVX2 and the portable one.
    hwy::SetSupportedTargetsForTest(isa == "avx2" ? HWY_AVX2 : HWY_SSE4);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

const auto* const kRegistered = ::testing::AddGlobalTestEnvironment(new IsaEnvironment);

}  // namespace
}  // namespace stretto::test
