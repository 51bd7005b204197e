# ctest reads this file when it starts: for every test suite of PROGRAM, it adds a test PREFIX.Suite with PROPERTIES. Most tests
# take less time than the start of a program, so all tests of a suite run in one process. The file FOUND holds the list of suites
# until PROGRAM is linked again.
if(NOT EXISTS "${PROGRAM}")
  add_test(${PREFIX}.NOT_BUILT "${PROGRAM}")
  return()
endif()
if("${PROGRAM}" IS_NEWER_THAN "${FOUND}")
  execute_process(COMMAND "${PROGRAM}" --gtest_list_tests OUTPUT_VARIABLE lines RESULT_VARIABLE failed TIMEOUT 600)
  if(failed)
    message(FATAL_ERROR "${PROGRAM} --gtest_list_tests: ${failed}")
  endif()
  string(REGEX MATCHALL "\n[^ \n]+\\.[^\n]*" suites "\n${lines}")
  list(TRANSFORM suites REPLACE "^\n([^ ]+)\\..*" "\\1")
  file(WRITE "${FOUND}" "${suites}")
endif()
file(READ "${FOUND}" suites)
foreach(suite ${suites})
  add_test("${PREFIX}.${suite}" "${PROGRAM}" "--gtest_filter=${suite}.*")
  # A suite counts as skipped if all its tests were skipped.
  set_tests_properties("${PREFIX}.${suite}" PROPERTIES ${PROPERTIES}
    SKIP_REGULAR_EXPRESSION "PASSED  \\] 0 tests\\.\n(\\[  SKIPPED \\][^\n]*\n)+$")
endforeach()
