# What every target of ours is compiled with.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Release keeps assertions out and symbols in: a stack trace must name its functions.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")

find_program(CCACHE ccache)
if(CCACHE)
  # Paths below the checkout count relative to it, so that one clone uses what another compiled.
  set(CCACHE env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(stretto_options INTERFACE)
target_compile_options(stretto_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
    -ffp-contract=off -fno-math-errno -fstack-protector-strong>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports std::string::insert as overlapping copies (GCC bug 105651).
  target_compile_options(stretto_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND STRETTO_SANITIZE)
  # With sanitizers it takes parts of std::regex for uninitialized (GCC bug 105562).
  target_compile_options(stretto_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
endif()
if(STRETTO_WERROR)
  target_compile_options(stretto_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT STRETTO_SANITIZE)
  target_compile_definitions(stretto_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:_FORTIFY_SOURCE=2>)
endif()
target_link_options(stretto_options INTERFACE -Wl,-z,relro,-z,now)
if(STRETTO_SANITIZE)
  list(JOIN STRETTO_SANITIZE "," sanitizers)
  target_compile_options(stretto_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer>)
  target_link_options(stretto_options INTERFACE -fsanitize=${sanitizers})
endif()
if(STRETTO_FUZZ)
  # Coverage counters everywhere; the fuzz targets alone link libFuzzer itself.
  target_compile_options(stretto_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
endif()
