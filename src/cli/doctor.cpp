// stretto doctor: one page about this machine.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "account/peaks.h"
#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "bench/survey.h"
#include "cli/page.h"
#include "cli/verbs.h"

namespace stretto::cli {
namespace {

constexpr const char* kHelp =
    "One page on this machine: what it has, what it delivers, what is missing\n\n"
    "Examples:\n"
    "  stretto doctor                  measures for a few seconds, all cores\n"
    "  stretto doctor --quick          looks only, measures nothing\n"
    "  stretto doctor --disk /scratch  tests the disk that runs will write to\n"
    "  stretto doctor --json           for machines\n";

void line(const char* title, const std::string& text) {
  write_page(fmt::format("{:<11}  {}\n", title, text));
}

std::string cache_text(const CpuInfo& cpu) {
  std::string text;
  for (const CacheInfo& cache : cpu.caches) {
    if (cache.kind == "instruction") continue;
    text += fmt::format("{}L{} {}{}", text.empty() ? "" : ", ", cache.level,
                        format_bytes(static_cast<double>(cache.bytes)),
                        cache.instances > 1 ? fmt::format(" x {}", cache.instances) : "");
  }
  return text.empty() ? "unknown" : text;
}

std::string cores_text(const CpuInfo& cpu) {
  std::string text =
      fmt::format("{}, {}, {}, {}", counted(cpu.cores, "core"), counted(cpu.logical, "thread"),
                  counted(cpu.sockets, "socket"), counted(cpu.numa_nodes, "NUMA node"));
  if (cpu.usable < cpu.logical) text += fmt::format("; {} usable here", cpu.usable);
  if (cpu.virtual_machine) text += "; virtual machine";
  return text;
}

std::string memory_text(const MemoryInfo& memory) {
  std::string text =
      fmt::format("{}, {} available", format_bytes(static_cast<double>(memory.total)),
                  format_bytes(static_cast<double>(memory.available)));
  if (memory.limit > 0) {
    text += fmt::format("; limited to {}", format_bytes(static_cast<double>(memory.limit)));
  }
  return text;
}

void print_rates(const MachineRates& rates) {
  fmt::print("\nMeasured, fp32 unless said, all usable cores\n");
  line("FMA peak",
       fmt::format("{:.1f} GFLOP/s (one core {:.1f}){}", rates.fma / 1e9, rates.fma_one_core / 1e9,
                   rates.fma_from_product
                       ? "; that of a product, for less was measured: cores are busy"
                       : ""));
  line("GEMM", fmt::format("{:.1f} GFLOP/s, {:.0f} % of the FMA peak", rates.gemm / 1e9,
                           rates.fma > 0 ? 100 * rates.gemm / rates.fma : 0));
  if (rates.bf16_gemm > 0) {
    line("GEMM, bf16", fmt::format("{:.1f} GFLOP/s", rates.bf16_gemm / 1e9));
  }
  line("memory", fmt::format("{:.1f} GB/s (triad)", rates.triad / 1e9));
  if (rates.message_rate > 0) {
    line("two ranks", fmt::format("{:.1f} us per call, {:.1f} GB/s (sum, ring volume)",
                                  rates.message_seconds * 1e6, rates.message_rate / 1e9));
  }
  if (rates.cores.disturbed()) {
    line("busy", describe(rates.cores) + " meanwhile: all of these may be too low");
  }
}

void print_gpus(const GpuDriver& driver) {
  if (driver.gpus.empty()) {
    line("GPUs", driver.device_present ? "present, but no driver answers" : "none");
    return;
  }
  for (const GpuInfo& gpu : driver.gpus) {
    std::string text = fmt::format("{}, {}, driver {}; promised {} bf16", printable(gpu.name),
                                   format_bytes(static_cast<double>(gpu.memory)),
                                   printable(driver.version), format_peak(gpu.bf16_peak));
    if (gpu.bf16_measured) text += ", measured " + format_peak(gpu.bf16_measured);
    line("GPU", text);
  }
}

void print_page(const MachineInfo& m) {
  line("machine", fmt::format("{}, {}", printable(m.host), printable(m.system)));
  line("processor", fmt::format("{} ({})", printable(m.cpu.model), m.cpu.architecture));
  line("cores", cores_text(m.cpu));
  line("caches", cache_text(m.cpu));
  line("SIMD",
       fmt::format("{}; our kernels use {}", fmt::join(m.cpu.simd, " "), m.cpu.simd_target));
  line("memory", memory_text(m.memory));
  print_gpus(m.gpu);
  line("MPI", m.mpi.version.empty()
                  ? "none"
                  : fmt::format("{}, launcher {}", printable(m.mpi.version),
                                m.mpi.launcher.empty() ? "missing" : m.mpi.launcher));
  std::string disk = fmt::format("{} free in {}", format_bytes(static_cast<double>(m.disk.free)),
                                 printable(m.disk.path));
  if (m.disk.write_bytes_per_second) {
    disk += fmt::format(", {:.0f} MB/s written and synced", *m.disk.write_bytes_per_second / 1e6);
  }
  line("disk", disk);
  if (m.rates) print_rates(*m.rates);
  fmt::print("\n{}\n", m.missing.empty() ? "Nothing is missing." : "Missing");
  for (const MissingPart& part : m.missing) {
    write_page(fmt::format("  {}: needed for {}\n    {}\n", part.what, part.effect, part.command));
  }
}

}  // namespace

void add_doctor(Command& app) {
  struct Options {
    bool json = false, quick = false;
    std::string disk = ".";
  };
  Command* verb = app.add_subcommand("doctor", kHelp);
  auto options = std::make_shared<Options>();
  verb->add_flag("--json", options->json, "For machines");
  verb->add_flag("--quick", options->quick, "Measure nothing");
  verb->add_option("--disk", options->disk, "Directory whose disk is looked at")
      ->directory()
      ->capture_default_str();
  verb->callback([options] {
    if (std::error_code ignored; !std::filesystem::is_directory(options->disk, ignored)) {
      throw Error(ExitCode::no_input,
                  fmt::format("--disk {} is no directory", printable(options->disk)),
                  "name one on the disk that runs will write to");
    }
    const MachineInfo machine = survey_machine(!options->quick, options->disk);
    if (options->json) {
      print_json(to_json(machine));
    } else {
      print_page(machine);
    }
  });
}

}  // namespace stretto::cli
