// This machine: what it consists of and, if measured, how fast it is. Run records include it, so
// that results can be judged without access to the machine.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "machine/core_use.h"

namespace stretto {

struct CacheInfo {
  int level = 0;
  std::string kind;   // data, instruction, unified
  int64_t bytes = 0;  // of one instance
  int64_t instances = 0;
};

struct CpuInfo {
  std::string model;
  std::string architecture;  // x86_64, aarch64
  int64_t logical = 0;       // processors online
  int64_t usable = 0;        // of these this process may use (affinity, container limit)
  int64_t cores = 0;         // physical
  int64_t sockets = 0;
  int64_t numa_nodes = 0;
  bool virtual_machine = false;
  std::vector<CacheInfo> caches;
  std::vector<std::string> simd;  // sse4_2, avx2, fma, avx512f, avx512_bf16, amx_bf16, ...
  std::string simd_target;        // the instruction set our own kernels will use: "AVX3"
};

struct MemoryInfo {
  int64_t total = 0;  // bytes
  int64_t available = 0;
  int64_t limit = 0;  // of the container or job, 0 = none
};

struct GpuInfo {
  std::string name;
  int64_t memory = 0;               // bytes
  std::optional<double> bf16_peak;  // stated by the maker, FLOP/s; empty: unknown peak
  std::optional<double> tf32_peak;
  std::optional<double> bf16_measured;  // FLOP/s; set by whoever owns a GPU backend
};

struct GpuDriver {
  std::string version;  // empty: no NVIDIA driver answered
  std::vector<GpuInfo> gpus;
  // There is an NVIDIA device file, with or without the driver's library.
  bool device_present = false;
};

struct MpiInfo {
  bool in_build = false;
  std::string version;   // first line of what the library says; empty: no library found
  std::string launcher;  // path of mpirun; empty: none
};

struct DiskInfo {
  std::string path;
  int64_t free = 0;                              // bytes
  std::optional<double> write_bytes_per_second;  // synced to the device
};

// Measured rates: FLOP/s and bytes/s with all usable cores.
struct MachineRates {
  double fma_one_core = 0;  // fp32, registers only: no kernel can be faster
  double fma = 0;           // all together
  // The FMA peak came out below what a product reached, whose rate stands for it.
  bool fma_from_product = false;
  // Matrix products as steps use them, best of a few sizes; set by callers that have a backend.
  // bf16 is 0 if the CPU has no units for it.
  double gemm = 0, bf16_gemm = 0;
  double triad = 0;  // memory bandwidth, a = b + s c, three transfers counted
  // Two ranks of this process: seconds of a call that moves next to nothing, and bytes/s of a long
  // sum (ring volume). 0 on one core.
  double message_seconds = 0;
  double message_rate = 0;
  CoreUse cores;  // while the rates were measured; the worst interval
};

struct MissingPart {
  std::string what;     // "MPI launcher"
  std::string effect;   // what does not work without it
  std::string command;  // installs it
};

struct MachineInfo {
  std::string host;
  std::string system;  // "Debian GNU/Linux 12 (bookworm), Linux 6.1.0"
  CpuInfo cpu;
  MemoryInfo memory;
  GpuDriver gpu;
  MpiInfo mpi;
  DiskInfo disk;
  std::optional<MachineRates> rates;
  std::vector<MissingPart> missing;
};

// With `measure` it takes about 4 s and all cores, without it milliseconds. `directory` is where
// runs will write; the disk test leaves nothing behind.
MachineInfo probe_machine(bool measure, const std::string& directory = ".");

nlohmann::json to_json(const MachineInfo& machine);

// Parts of it, for callers that need only one.
CpuInfo probe_cpu();
MemoryInfo probe_memory();
GpuDriver probe_gpus();
MpiInfo probe_mpi();
// The program that a shell would start by this name; empty if there is none.
std::string find_program(const std::string& name);
MachineRates measure_rates(const CpuInfo& cpu, const MemoryInfo& memory);
// FLOP/s of `threads` threads together, registers only: the best of several short windows.
double measure_fma(int threads, double seconds);
// No product can be faster than the FMA peak. Where one was, the peak was measured short: other
// programs had cores. It is measured again for longer, and if that does not help, the product's
// rate stands for it.
void settle_fma_peak(MachineRates& rates, const std::function<double(double seconds)>& measure);
void measure_messages(MachineRates& rates);
double measure_disk_write(const std::string& directory);  // bytes/s; throws FsError

}  // namespace stretto
