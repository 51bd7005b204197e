# What `cmake --install` installs besides the program, and the two Debian packages of `cpack -G DEB`:
# dml (program, manual pages, completions, documentation) and libdml-dev (headers and CMake package for plug-ins). The components
# are named like the packages.
set(manual ${CMAKE_BINARY_DIR}/manual)
set(sources ${CMAKE_CURRENT_LIST_DIR})
find_program(GZIP gzip)

# A package needs a maintainer. Debian's own variables name one; without them it is nobody in particular.
set(maintainer "dml developers")
set(address "dml@localhost.localdomain")
if(DEFINED ENV{DEBFULLNAME})
  set(maintainer $ENV{DEBFULLNAME})
endif()
if(DEFINED ENV{DEBEMAIL})
  set(address $ENV{DEBEMAIL})
endif()
set(CPACK_PACKAGE_CONTACT "${maintainer} <${address}>")
set(ENV{LC_ALL} C)
string(TIMESTAMP built "%a, %d %b %Y %H:%M:%S +0000" UTC)   # SOURCE_DATE_EPOCH, where it is set
configure_file(${sources}/changelog.in ${manual}/changelog @ONLY)

add_custom_command(OUTPUT ${manual}/written
  COMMAND ${CMAKE_COMMAND} -D DML=$<TARGET_FILE:dml> -D TO=${manual} -D GZIP=${GZIP} -P ${sources}/manual.cmake
  DEPENDS dml ${sources}/manual.cmake ${manual}/changelog VERBATIM)
add_custom_target(dml_manual ALL DEPENDS ${manual}/written)

set(data ${CMAKE_INSTALL_DATADIR})
install(DIRECTORY ${manual}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT dml)
install(FILES ${manual}/completions/dml DESTINATION ${data}/bash-completion/completions COMPONENT dml)
install(FILES ${manual}/completions/dml.fish DESTINATION ${data}/fish/vendor_completions.d COMPONENT dml)
# zsh of Debian looks in one place for what packages bring, in another for what is installed below /usr/local.
install(CODE "
  if(CMAKE_INSTALL_PREFIX MATCHES \"(^|/)usr/?$\")
    set(functions vendor-completions)
  else()
    set(functions site-functions)
  endif()
  file(INSTALL \"${manual}/completions/_dml\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${data}/zsh/\${functions}\")"
  COMPONENT dml)

# Documentation is installed as in the source tree, so that links and paths in recipes work: the examples can be run in a copy
# of the folder.
set(doc ${data}/doc/dml)
install(FILES README.md ${sources}/copyright DESTINATION ${doc} COMPONENT dml)
install(DIRECTORY examples recipes datasets DESTINATION ${doc} COMPONENT dml PATTERN outputs EXCLUDE)
install(DIRECTORY docs DESTINATION ${doc} COMPONENT dml OPTIONAL)
install(FILES ${sources}/copyright DESTINATION ${data}/doc/libdml-dev COMPONENT libdml-dev)
if(GZIP)
  install(FILES ${manual}/changelog.gz DESTINATION ${doc} COMPONENT dml)
  install(FILES ${manual}/changelog.gz DESTINATION ${data}/doc/libdml-dev COMPONENT libdml-dev)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME dml)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "fine-tune language models on CPUs from one YAML recipe")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL dml libdml-dev)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_DML_PACKAGE_NAME dml)
set(CPACK_DEBIAN_DML_PACKAGE_SECTION science)
set(CPACK_DEBIAN_DML_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_DML_PACKAGE_DEPENDS openmpi-bin)
set(CPACK_COMPONENT_DML_DESCRIPTION "dml trains and fine-tunes language models on CPUs, on one machine or on many
through MPI: from scratch, all weights, LoRA or QLoRA. Recipes use the keys of
Axolotl; models and adapters are directories of Hugging Face transformers and
PEFT.")

set(CPACK_DEBIAN_LIBDML-DEV_PACKAGE_NAME libdml-dev)
set(CPACK_DEBIAN_LIBDML-DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBDML-DEV_PACKAGE_DEPENDS nlohmann-json3-dev)
set(CPACK_COMPONENT_LIBDML-DEV_DESCRIPTION "Headers and the CMake package for plug-ins of dml, which trains language models on
CPUs: optimizers, prompt formats, objectives, observers and more.")
include(CPack)
