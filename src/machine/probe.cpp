// Assembles the description of the machine, and says what is missing.
#include <dlfcn.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/fs.h"
#include "base/host.h"
#include "base/log.h"
#include "machine/machine.h"
#include "machine/system_text.h"

namespace stretto {

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const std::string file = std::string(rest.substr(0, end)) + "/" + name;
    if (end > 0 && access(file.c_str(), X_OK) == 0) return file;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return "";
}

namespace {

std::string system_name() {
  std::ifstream in("/etc/os-release");
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::string name = read_os_release(text).value_or("unknown system");
  utsname kernel{};
  if (uname(&kernel) == 0) name += std::string(", ") + kernel.sysname + " " + kernel.release;
  return name;
}

DiskInfo probe_disk(const std::string& directory, bool measure) {
  DiskInfo disk;
  disk.path = directory;
  try {
    disk.free = posix_fs().free_space(directory);
    if (measure) disk.write_bytes_per_second = measure_disk_write(directory);
  } catch (const Error& error) {
    spdlog::warn("disk: {}", error.what());
  }
  return disk;
}

std::vector<MissingPart> missing_parts(const MachineInfo& m) {
  std::vector<MissingPart> missing;
  if (m.mpi.version.empty() || m.mpi.launcher.empty()) {
    missing.push_back({"MPI", "runs on several machines or processes",
                       "apt-get install libopenmpi-dev openmpi-bin"});
  } else if (!m.mpi.in_build) {
    missing.push_back({"MPI in this build", "runs on several machines or processes", "make build"});
  }
  if (m.gpu.device_present && m.gpu.version.empty()) {
    missing.push_back({"NVIDIA driver library (libnvidia-ml.so.1)", "the GPU of this machine",
                       "apt-get install nvidia-driver"});
  }
  if (!m.gpu.gpus.empty() && STRETTO_CUDA_IN_BUILD == 0) {
    const bool compiler = !find_program("nvcc").empty();
    missing.push_back({"CUDA in this build", "training on the GPU",
                       compiler ? "CUDA=1 make build"
                                : "apt-get install nvidia-cuda-toolkit && CUDA=1 make build"});
  }
  return missing;
}

}  // namespace

// MPI_Get_library_version may be called before MPI_Init, so nothing is started.
MpiInfo probe_mpi() {
  MpiInfo mpi;
  mpi.in_build = STRETTO_MPI_IN_BUILD != 0;
  mpi.launcher = find_program("mpirun");
  for (const char* name : {"libmpi.so.40", "libmpi.so.12", "libmpi.so"}) {
    void* library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) continue;
    const auto version =
        reinterpret_cast<int (*)(char*, int*)>(dlsym(library, "MPI_Get_library_version"));
    std::array<char, 8192>
        text{};  // MPI_MAX_LIBRARY_VERSION_STRING is 256 (Open MPI), 8192 (MPICH)
    int length = 0;
    if (version != nullptr && version(text.data(), &length) == 0) {
      const std::string all = text.data();
      mpi.version = all.substr(0, std::min(all.find(','), all.find('\n')));
    }
    // Not closed, because MPI libraries cannot be unloaded safely.
    break;
  }
  return mpi;
}

MachineInfo probe_machine(bool measure, const std::string& directory) {
  MachineInfo machine;
  machine.host = host_name();
  machine.system = system_name();
  machine.cpu = probe_cpu();
  machine.memory = probe_memory();
  machine.gpu = probe_gpus();
  machine.mpi = probe_mpi();
  machine.disk = probe_disk(directory, measure);
  if (measure) machine.rates = measure_rates(machine.cpu, machine.memory);
  machine.missing = missing_parts(machine);
  return machine;
}

}  // namespace stretto
