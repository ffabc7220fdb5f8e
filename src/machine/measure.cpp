// Measures the machine: arithmetic, memory, messages, disk. Takes the best of several runs, because
// other work on the machine can only make a rate smaller.
#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/cores.h"
#include "base/fs.h"
#include "machine/fma.h"
#include "machine/machine.h"

namespace stretto {
namespace {

// Binds this thread to one core during its lifetime. Otherwise the system may leave two threads on
// one core for a while, with another core idle, and the machine would look half as fast.
class OnCore {
 public:
  explicit OnCore(int core) {
    known_ = sched_getaffinity(0, sizeof before_, &before_) == 0;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(core), &one);
    if (known_) sched_setaffinity(0, sizeof one, &one);
  }
  ~OnCore() {
    if (known_) sched_setaffinity(0, sizeof before_, &before_);
  }
  OnCore(const OnCore&) = delete;
  OnCore& operator=(const OnCore&) = delete;

 private:
  cpu_set_t before_;
  bool known_ = false;
};

// FLOP/s of `threads` threads together: all their work divided by the time of the slowest.
double fma_rate(int threads, double seconds) {
  const std::vector<int> cores = allowed_cores();
  float warm = 1;
  const double start = clock_seconds();
  const double flops = fma_rounds(200'000, &warm);
  // Many short runs, so that at least one of them is undisturbed.
  constexpr int kRuns = 25;
  const auto rounds =
      static_cast<int64_t>(200'000 * seconds / kRuns / std::max(1e-6, clock_seconds() - start));
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    double done = 0;
    const double begin = clock_seconds();
#pragma omp parallel num_threads(threads) reduction(+ : done)
    {
      // With fewer threads than cores the system places them on idle cores by itself.
      std::optional<OnCore> here;
      if (threads == std::ssize(cores))
        here.emplace(cores[static_cast<size_t>(omp_get_thread_num())]);
      float sink = warm;
      done += fma_rounds(std::max<int64_t>(1, rounds), &sink);
    }
    best = std::max(best, done / (clock_seconds() - begin));
  }
  return flops > 0 ? best : 0;
}

// Arrays far larger than the last cache; each page is first touched by the thread that uses it.
double triad_rate(int threads, int64_t cache_bytes, int64_t available, double seconds) {
  int64_t count = std::max<int64_t>(4 * cache_bytes, 64 << 20) / 8;
  count = std::min(count, available / 8 / 8);
  if (count < 1024) return 0;
  const auto size = static_cast<size_t>(count);
  const std::unique_ptr<double[]> a(new double[size]), b(new double[size]), c(new double[size]);
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < count; ++i) a[i] = 0, b[i] = 1, c[i] = 2;
  double best = 0;
  const double end = clock_seconds() + seconds;
  do {
    const double begin = clock_seconds();
#pragma omp parallel for simd num_threads(threads) schedule(static)
    for (int64_t i = 0; i < count; ++i) a[i] = b[i] + 3.0 * c[i];
    best = std::max(best, 3.0 * 8.0 * static_cast<double>(count) / (clock_seconds() - begin));
  } while (clock_seconds() < end);
  return best;
}

}  // namespace

MachineRates measure_rates(const CpuInfo& cpu, const MemoryInfo& memory) {
  const int threads = static_cast<int>(std::max<int64_t>(1, cpu.usable));
  int64_t cache = 0;
  for (const CacheInfo& info : cpu.caches) cache = std::max(cache, info.bytes * info.instances);
  MachineRates rates;
  rates.fma_one_core = fma_rate(1, 0.25);
  const CoreWatch watch(allowed_cores());  // during measurements that use all cores
  rates.fma = std::max(rates.fma_one_core, fma_rate(threads, 0.4));
  rates.triad = triad_rate(threads, cache, memory.available, 0.5);
  rates.cores = watch.use(watch.own_seconds(), threads);
  if (threads > 1) measure_messages(rates);
  return rates;
}

double measure_disk_write(const std::string& directory) {
  constexpr size_t kBlock = 4 << 20;
  constexpr int kMostBlocks = 64;  // 256 MiB
  Fs& fs = posix_fs();
  const std::string path = join_path(
      directory, ".stretto-disk-test-" +
                     std::to_string(std::chrono::steady_clock::now().time_since_epoch().count()));
  // Bytes that do not compress, so that a compressing disk does not look fast.
  std::string block(kBlock, '\0');
  uint64_t state = 1;
  for (char& c : block) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    c = static_cast<char>(state >> 56);
  }
  const auto file = fs.create(path);
  // Removed at once: it exists while it is open, and is gone however this process ends.
  fs.remove(path);
  const double begin = clock_seconds();
  for (int i = 0; i < kMostBlocks && clock_seconds() - begin < 0.7; ++i) file->append(block);
  file->sync();
  const double seconds = clock_seconds() - begin;
  const double bytes = static_cast<double>(file->appended());
  file->close();
  return bytes / seconds;
}

}  // namespace stretto
