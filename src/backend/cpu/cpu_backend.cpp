// Construction, memory and copies.
#include "backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/host_memory.h"
#include "base/ceil_div.h"

namespace stretto {
namespace {

constexpr size_t kCopyPiece = size_t{1} << 20;  // bytes of one piece of a copy

int64_t copy_pieces(size_t bytes) { return static_cast<int64_t>(ceil_div(bytes, kCopyPiece)); }

void copy_bytes(int threads, void* dst, const void* src, size_t bytes) {
  parallel_for(threads, copy_pieces(bytes), [&](int64_t piece) {
    const size_t begin = static_cast<size_t>(piece) * kCopyPiece;
    std::memcpy(static_cast<char*>(dst) + begin, static_cast<const char*>(src) + begin,
                std::min(kCopyPiece, bytes - begin));
  });
}

}  // namespace

CpuBackend::CpuBackend(int threads) : threads_(threads), gemm_(threads) {}

void CpuBackend::use_workspace(Tensor shared, Tensor workers) {
  gemm_.shared.use(shared);
  for (int64_t i = 0; i < threads_; ++i) {
    const bool planned = !workers.none() && i < workers.rows();
    gemm_.worker[static_cast<size_t>(i)].use(planned ? workers.row_range(i, i + 1) : Tensor());
  }
}

WorkspaceUse CpuBackend::workspace_use() const {
  WorkspaceUse use{gemm_.shared.most(), gemm_.shared.beyond()};
  for (const Scratch& scratch : gemm_.worker) {
    use.used += scratch.most();
    use.beyond += scratch.beyond();
  }
  return use;
}

Buffer CpuBackend::do_allocate(size_t bytes, const char* label) {
  return stretto::allocate_host(bytes, label);
}

void CpuBackend::do_copy(Tensor dst, ConstTensor src) {
  copy_bytes(threads_, dst.data(), src.data(), src.bytes());
}

void CpuBackend::do_copy_from_host(Tensor dst, const void* src) {
  copy_bytes(threads_, dst.data(), src, dst.bytes());
}

void CpuBackend::do_copy_to_host(void* dst, ConstTensor src) {
  copy_bytes(threads_, dst, src.data(), src.bytes());
}

void CpuBackend::do_fill_zero(Tensor t) {
  parallel_for(threads_, copy_pieces(t.bytes()), [&](int64_t piece) {
    const size_t begin = static_cast<size_t>(piece) * kCopyPiece;
    std::memset(t.as<char>() + begin, 0, std::min(kCopyPiece, t.bytes() - begin));
  });
}

std::unique_ptr<Backend> make_cpu_backend(int threads) {
  if (threads < 1) {
    throw Error(ExitCode::bad_config, fmt::format("CPU backend with {} threads", threads),
                "use at least one thread");
  }
  return std::make_unique<CpuBackend>(threads);
}

}  // namespace stretto
