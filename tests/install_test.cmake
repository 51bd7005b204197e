# Installs into a folder of its own, builds examples/custom-prompt against it as a stranger would, and runs it.
set(place ${BUILD}/install-test)
file(REMOVE_RECURSE ${place})

function(step)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${SOURCE} RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${result}:\n${said}")
  endif()
  set(said "${said}" PARENT_SCOPE)
endfunction()

step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${place}/prefix)
step(${CMAKE_COMMAND} -G ${GENERATOR} -S examples/custom-prompt -B ${place}/build -D CMAKE_PREFIX_PATH=${place}/prefix
     -D CMAKE_BUILD_TYPE=${BUILD_TYPE} -D CMAKE_CXX_FLAGS=${FLAGS})
step(${CMAKE_COMMAND} --build ${place}/build)
step(${place}/build/train_riddles examples/custom-prompt/riddles.yml --output_dir ${place}/out
     --dataset_prepared_path ${place}/prepared)
foreach(file model.safetensors config.json metrics.jsonl)
  if(NOT EXISTS ${place}/out/${file})
    message(FATAL_ERROR "training left no ${file}:\n${said}")
  endif()
endforeach()
step(${place}/prefix/bin/dml version)
file(REMOVE_RECURSE ${place})
