# stretto_embed(target NAME symbol FILES a b ...): the files' bytes become part of the program.
# In C++, after #include "base/embedded.h" (namespace stretto):
#   std::span<const EmbeddedFile> embedded_symbol();
function(stretto_embed target)
  cmake_parse_arguments(E "" "NAME" "FILES" ${ARGN})
  set(out ${CMAKE_CURRENT_BINARY_DIR}/embedded_${E_NAME}.cpp)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DNAME=${E_NAME} "-DFILES=${E_FILES}"
      -P ${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake
    DEPENDS ${E_FILES} ${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()
