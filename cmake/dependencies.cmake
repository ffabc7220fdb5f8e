# Everything from the distribution; nothing is downloaded. `make` installs what is missing.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
find_path(XXHASH_INCLUDE xxhash.h REQUIRED)
pkg_check_modules(OPENBLAS REQUIRED IMPORTED_TARGET openblas)

if(NOT STRETTO_ONEDNN STREQUAL "OFF")
  find_package(dnnl QUIET)
endif()
stretto_optional(ONEDNN dnnl_FOUND "apt-get install libdnnl-dev")

# Distributions have several MPI libraries side by side, each with a compiler and a launcher of its
# own: a name (openmpi, mpich) means that one, and must be there.
set(mpi_packages "libopenmpi-dev openmpi-bin")
if(NOT STRETTO_MPI MATCHES "^(AUTO|ON|OFF)$")
  set(MPI_C_COMPILER mpicc.${STRETTO_MPI})
  find_program(STRETTO_MPIEXEC mpiexec.${STRETTO_MPI})
  set(MPIEXEC_EXECUTABLE ${STRETTO_MPIEXEC})
  if(STRETTO_MPI STREQUAL "mpich")
    set(mpi_packages "libmpich-dev mpich")
  endif()
endif()
if(NOT STRETTO_MPI STREQUAL "OFF")
  find_package(MPI QUIET COMPONENTS C)
endif()
stretto_optional(MPI MPI_C_FOUND "apt-get install ${mpi_packages}")

# CUDA builds where a GPU is present, or when asked for.
set(STRETTO_CUDA_FOUND OFF)
if(STRETTO_CUDA STREQUAL "ON" OR (STRETTO_CUDA STREQUAL "AUTO" AND EXISTS /dev/nvidiactl))
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real)
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.26 does not know that nvcc has it
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    if(CCACHE)
      set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
    endif()
    set(STRETTO_CUDA_FOUND ON)
  endif()
endif()
stretto_optional(CUDA STRETTO_CUDA_FOUND "needs nvcc, and a GPU present or CUDA=1")

set(STRETTO_NCCL_FOUND OFF)
set(STRETTO_CUDNN_FOUND OFF)
set(STRETTO_CUTLASS_FOUND OFF)
if(STRETTO_CUDA_FOUND)
  find_path(NCCL_INCLUDE nccl.h)
  find_path(CUDNN_INCLUDE cudnn.h)
  if(NCCL_INCLUDE AND NOT STRETTO_NCCL STREQUAL "OFF")
    set(STRETTO_NCCL_FOUND ON)
  endif()
  find_path(CUDNN_FRONTEND_INCLUDE cudnn_frontend.h
    HINTS ENV CUDNN_FRONTEND_PATH ${PROJECT_SOURCE_DIR}/.cache/cudnn-frontend PATH_SUFFIXES include)
  if(CUDNN_INCLUDE AND CUDNN_FRONTEND_INCLUDE AND NOT STRETTO_CUDNN STREQUAL "OFF")
    set(STRETTO_CUDNN_FOUND ON)
  endif()
  # The wheel keeps its headers inside the package.
  execute_process(COMMAND python3 -c "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    OUTPUT_VARIABLE wheels OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  find_path(CUTLASS_INCLUDE cutlass/epilogue/fusion/sm90_visitor_tma_warpspecialized.hpp
    HINTS ENV CUTLASS_PATH ${PROJECT_SOURCE_DIR}/.cache/cutlass ${wheels}/cutlass_library/source
    PATH_SUFFIXES include)
  if(CUTLASS_INCLUDE AND NOT STRETTO_CUTLASS STREQUAL "OFF" AND
     CMAKE_CUDA_ARCHITECTURES MATCHES "90|native|all")
    set(STRETTO_CUTLASS_FOUND ON)
  endif()
endif()
stretto_optional(NCCL STRETTO_NCCL_FOUND "needs CUDA and nccl.h: libnccl-dev")
stretto_optional(CUDNN STRETTO_CUDNN_FOUND
  "needs CUDA, cudnn.h and the headers of the PyPI wheel nvidia-cudnn-frontend")
stretto_optional(CUTLASS STRETTO_CUTLASS_FOUND
  "needs CUDA for Hopper and the headers of the PyPI wheel nvidia-cutlass")

if(STRETTO_TESTS)
  find_package(GTest REQUIRED)
  find_path(RAPIDCHECK_INCLUDE rapidcheck.h REQUIRED)
  find_library(RAPIDCHECK_LIBRARY rapidcheck REQUIRED)
endif()
