# Two helper functions keep every module's CMakeLists to a few lines.

# stretto_module(name SOURCES a.cpp ... DEPS stretto_base ...): the static library stretto_<name>.
function(stretto_module name)
  cmake_parse_arguments(M "" "" "SOURCES;DEPS" ${ARGN})
  add_library(stretto_${name} STATIC ${M_SOURCES})
  target_include_directories(stretto_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(stretto_${name} PUBLIC stretto_options ${M_DEPS})
endfunction()

# stretto_test(name SOURCES a_test.cpp ... DEPS stretto_x ... LABELS unit): one gtest program
# test_<name>, each of its test cases known to ctest.
function(stretto_test name)
  cmake_parse_arguments(T "" "" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT T_LABELS)
    set(T_LABELS unit)
  endif()
  add_executable(test_${name} ${T_SOURCES})
  target_link_libraries(test_${name} PRIVATE ${T_DEPS} stretto_test_main)
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  # Compiling the tests is half of CI's time; what they test is compiled as users run it.
  target_compile_options(test_${name} PRIVATE
    $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1;-g0>)
  target_compile_definitions(test_${name} PRIVATE STRETTO_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  # Parameters have names of their own; their values are bytes that differ from build to build.
  gtest_discover_tests(test_${name} NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "${T_LABELS}" TIMEOUT 300 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endfunction()

# stretto_optional(NAME found-variable "what to install"): one line of the summary, and a loud
# failure when the part was asked for (STRETTO_<NAME>=ON) but is not here.
function(stretto_optional name found hint)
  if(${found})
    set(state "yes")
  elseif(NOT STRETTO_${name} MATCHES "^(AUTO|OFF)$")
    message(FATAL_ERROR "STRETTO_${name}=${STRETTO_${name}}, but ${name} was not found. ${hint}")
  elseif(STRETTO_${name} STREQUAL "OFF")
    set(state "off (asked for)")
  else()
    set(state "no  (${hint})")
  endif()
  set_property(GLOBAL APPEND PROPERTY STRETTO_SUMMARY "  ${name}: ${state}")
endfunction()
