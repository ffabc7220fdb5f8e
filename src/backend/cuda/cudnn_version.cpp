#include "backend/cuda/cudnn_version.h"

#include <fmt/format.h>

namespace stretto::cuda {

std::string cudnn_version_text(size_t version) {
  const size_t major = version < 10000 ? 1000 : 10000;  // before 9 it was written with less room
  return fmt::format("{}.{}.{}", version / major, version % major / 100, version % 100);
}

std::string cudnn_refusal(size_t version) {
  if (version < 90300) {
    return fmt::format("cuDNN {} is older than 9.3", cudnn_version_text(version));
  }
  // The frontend's list of faulty versions names these for the backward pass.
  if (version == 91000 || version == 91001) {
    return fmt::format("cuDNN {} has a faulty backward pass, which 9.10.2 has not",
                       cudnn_version_text(version));
  }
  return "";
}

}  // namespace stretto::cuda
