# `cmake --install build --prefix DIR`: the program, what shells and man read, examples, documents.
# The program carries its models, tables and page assets, and needs none of these to run.
include(GNUInstallDirs)

# After each link the program writes its manual and completion scripts: they say what it takes.
add_custom_command(TARGET stretto POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${CMAKE_BINARY_DIR}/share
  COMMAND stretto __share ${CMAKE_BINARY_DIR}/share COMMENT "Writing the manual" VERBATIM)
# Installed, it finds libraries outside the system's folders (CUDA's), but none in a build folder.
# In the build folder it has the same path: CMake's own there may end in an empty element, which is
# the current folder, whose libraries would then come before the system's.
set_target_properties(stretto PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON BUILD_WITH_INSTALL_RPATH ON)

install(TARGETS stretto RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${CMAKE_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATAROOTDIR} PATTERN zsh EXCLUDE)
# Debian's zsh looks for what packages bring in a folder of its own.
install(CODE "
  set(functions site-functions)
  if(CMAKE_INSTALL_PREFIX STREQUAL /usr AND EXISTS /etc/debian_version)
    set(functions vendor-completions)
  endif()
  file(INSTALL \"${CMAKE_BINARY_DIR}/share/zsh/site-functions/_stretto\"
    DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATAROOTDIR}/zsh/\${functions}\")")
install(DIRECTORY configs DESTINATION ${CMAKE_INSTALL_DATADIR}/stretto)
install(FILES LICENSE README.md ARCHITECTURE.md CONTRIBUTING.md SECURITY.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})

# `make package`: a .deb that depends on the libraries of this system.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "Stretto maintainers")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS libopenblas0-openmp)  # others of OpenBLAS start threads of their own
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS openmpi-bin)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
include(CPack)
