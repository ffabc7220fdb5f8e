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

// Starting, waking and binding threads takes milliseconds where there are many, so they do it once,
// and then all compute from one moment to another. Each has a rate of its own: one that another
// program holds up costs its own share alone.
double measure_fma(int threads, double seconds) {
  const std::vector<int> cores = allowed_cores();
  constexpr int kWindows = 25;  // many short ones, so that at least one of them is undisturbed
  constexpr int kWarmUp = 3;    // until threads have their cores, and cores their clock
  constexpr int64_t kRounds = 5'000;  // some 50 us between looks at the clock
  const double window = seconds / kWindows;
  double begin = 0, together = 0, best = 0;
#pragma omp parallel num_threads(threads)
  {
    // With fewer threads than cores the system places them on idle cores by itself.
    std::optional<OnCore> here;
    if (threads == std::ssize(cores))
      here.emplace(cores[static_cast<size_t>(omp_get_thread_num())]);
    float sink = 1;
    for (int run = -kWarmUp; run < kWindows; ++run) {
#pragma omp barrier
#pragma omp single
      {
        if (run > 0) best = std::max(best, together);
        together = 0;
        begin = clock_seconds();
      }
      double done = 0, now = begin;
      while (now - begin < window) {
        done += fma_rounds(kRounds, &sink);
        now = clock_seconds();
      }
#pragma omp atomic
      together += done / (now - begin);
    }
  }
  return std::max(best, together);
}

void settle_fma_peak(MachineRates& rates, const std::function<double(double seconds)>& measure) {
  for (const double seconds : {0.8, 1.6}) {
    if (rates.fma >= rates.gemm) return;
    rates.fma = std::max(rates.fma, measure(seconds));
  }
  rates.fma_from_product = rates.fma < rates.gemm;
  rates.fma = std::max(rates.fma, rates.gemm);
}

MachineRates measure_rates(const CpuInfo& cpu, const MemoryInfo& memory) {
  const int threads = static_cast<int>(std::max<int64_t>(1, cpu.usable));
  int64_t cache = 0;
  for (const CacheInfo& info : cpu.caches) cache = std::max(cache, info.bytes * info.instances);
  MachineRates rates;
  rates.fma_one_core = measure_fma(1, 0.25);
  const CoreWatch watch(allowed_cores());  // during measurements that use all cores
  rates.fma = std::max(rates.fma_one_core, measure_fma(threads, 0.4));
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
