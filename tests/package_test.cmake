# Makes the Debian package of what is built, installs it with apt, runs it as a user would, and removes it. Whatever goes
# wrong, the package is removed. It needs root, and that no dml is installed; otherwise the test is skipped with the reason.
foreach(program cpack dpkg-deb dpkg-shlibdeps apt-get id)
  find_program(found_${program} ${program})
  if(NOT found_${program})
    message("skipped: there is no ${program}")
    return()
  endif()
endforeach()
execute_process(COMMAND id -u OUTPUT_VARIABLE user OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(COMMAND dpkg-query -W -f \${Status} dml OUTPUT_VARIABLE installed ERROR_QUIET)
if(NOT user STREQUAL "0")
  message("skipped: installing a package needs root")
  return()
elseif(installed MATCHES "installed")
  message("skipped: dml is installed on this system")
  return()
endif()

set(place ${BUILD}/package-test)
file(REMOVE_RECURSE ${place})
set(ENV{DEBIAN_FRONTEND} noninteractive)
set(failures "")

# Runs a command; `said` is what it printed. A failure is kept, so that what follows can clean up.
function(step)
  if(failures)
    return()
  endif()
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    set(failures "${command}\nended with ${result}:\n${said}" PARENT_SCOPE)
  endif()
  set(said "${said}" PARENT_SCOPE)
endfunction()

function(expect text)
  if(NOT failures AND NOT said MATCHES "${text}")
    set(failures "expected '${text}' in:\n${said}" PARENT_SCOPE)
  endif()
endfunction()

# gzip: nearly all of the time would go into xz.
step(${found_cpack} -G DEB --config ${BUILD}/CPackConfig.cmake -B ${place} -D CPACK_COMPONENTS_ALL=dml
     -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip)
file(GLOB package ${place}/dml_*.deb)
step(dpkg-deb --field "${package}")
foreach(field "Package: dml" "Section: science" "Maintainer: [^\n]+ <[^\n]+>" "Depends: [^\n]*openmpi-bin" "Depends: [^\n]*libc6"
        "Depends: [^\n]*libopenblas0" "Depends: [^\n]*libyaml-cpp" "Description: fine-tune language models")
  expect("${field}")
endforeach()
step(dpkg-deb --contents "${package}")
set(doc /usr/share/doc/dml)
foreach(file /usr/bin/dml ${doc}/README.md ${doc}/copyright ${doc}/changelog.gz ${doc}/examples/alpaca.yml ${doc}/recipes/REFERENCE.md
        /usr/share/man/man1/dml.1.gz /usr/share/man/man1/dml-train.1.gz /usr/share/man/man5/dml-recipe.5.gz
        /usr/share/bash-completion/completions/dml /usr/share/zsh/vendor-completions/_dml
        /usr/share/fish/vendor_completions.d/dml.fish)
  expect("root/root[^\n]* [.]${file}\n")
endforeach()
if(NOT failures AND said MATCHES "/(include|lib)/")
  set(failures "files for developers are in the package of the program:\n${said}")
endif()

# Packages it depends on are there, or dml could not have been built; nothing is fetched.
step(${found_apt-get} -q -y --no-install-recommends -o DPkg::Lock::Timeout=600 install "${package}")
step(/usr/bin/dml version)
expect("^dml [0-9]+[.]")
step(bash -c "source /usr/share/bash-completion/completions/dml && COMP_WORDS=(dml val) COMP_CWORD=1 && _dml && echo \$COMPREPLY")
expect("^validate\n$")
# A copy of the documentation is a place to run the examples in.
step(cp -r ${doc} ${place}/copy)
step(${CMAKE_COMMAND} -E chdir ${place}/copy /usr/bin/dml train examples/alpaca.yml)
step(${CMAKE_COMMAND} -E chdir ${place}/copy /usr/bin/dml infer examples/alpaca.yml --prompt Hello --max-new-tokens 4)

execute_process(COMMAND dpkg-query -W -f \${Status} dml OUTPUT_VARIABLE installed ERROR_QUIET)
if(installed)
  set(before "${failures}")
  set(failures "")
  step(${found_apt-get} -q -y -o DPkg::Lock::Timeout=600 purge dml)
  string(PREPEND failures "${before}")
  if(EXISTS /usr/bin/dml OR EXISTS ${doc})
    string(APPEND failures "\nremoving the package left files behind")
  endif()
endif()
if(failures)
  message(FATAL_ERROR "${failures}")
endif()
file(REMOVE_RECURSE ${place})
