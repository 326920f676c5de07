# SPDX-License-Identifier: Apache-2.0
# UwasaCuda.cmake's part for -DUWASA_CUDA=emulated: .cu files are compiled as C++ for this
# processor, and targets that link them also link the emulated runtime.
#
#   uwasa_cuda_sources(<target> <file.cu> ...)

function(uwasa_cuda_sources target)
  set(objects ${target}_cu)
  foreach(source ${ARGN})
    set(options -x c++)
    if(source IN_LIST UWASA_CUDA_UNFUSED)
      list(APPEND options -ffp-contract=off)
    endif()
    set_source_files_properties(${source} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "${options}")
  endforeach()
  add_library(${objects} OBJECT ${ARGN})
  set_target_properties(${objects} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  uwasa_emulated_options(${objects})
  uwasa_emulated_contracts(${objects})
  uwasa_emulated_races(${objects})
  target_include_directories(${objects} PRIVATE
    $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>
    $<TARGET_PROPERTY:uwasa_runtime,INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_definitions(${target} PRIVATE UW_CUDA_EMULATED)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
  target_include_directories(${target} SYSTEM PRIVATE ${UWASA_CUDA_INCLUDE_DIR}
                                                     ${UWASA_CUDNN_INCLUDE_DIR})
  add_dependencies(${target} uwasa_cuda_libraries)
  target_link_libraries(${target} PUBLIC $<BUILD_INTERFACE:uwasa_emulated>)
endfunction()
