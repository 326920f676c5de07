# SPDX-License-Identifier: Apache-2.0
# CUDA without CMake's language CUDA, which wants to link before it can tell the compiler when it
# builds for another processor: each .cu file is one call of nvcc.
#
#   UWASA_NVCC, UWASA_CUDA_INCLUDE_DIR      the compiler and its headers
#   UWASA_CUDART                            the runtime for the target; NOTFOUND: nothing is linked
#   uwasa_cuda_sources(<target> <file.cu> ...)    compile for UWASA_CUDA_ARCHITECTURES, add to target
#
# UWASA_CUDA_TARGET, a folder with lib/, says where the target's runtime is; UWASA_CUDA_HOST_COMPILER
# what compiles the host's half. With UWASA_CUDA=emulated the processor's own compiler is in nvcc's
# place, and tests/gpu/emulated in the runtime's.

if(UWASA_CUDA STREQUAL "emulated")
  include(UwasaCudaEmulated)
  return()
endif()

set(UWASA_CUDA_ARCHITECTURES "87;110" CACHE STRING
    "Compute capabilities of the GPUs; code for later ones is made from the last at run time")
find_program(UWASA_NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin
             NO_CMAKE_FIND_ROOT_PATH)
if(UWASA_NVCC)
  get_filename_component(root ${UWASA_NVCC} REALPATH)
  get_filename_component(root ${root} DIRECTORY)
  get_filename_component(root ${root} DIRECTORY)
endif()
find_path(UWASA_CUDA_INCLUDE_DIR cuda_runtime_api.h HINTS ${root}/include NO_DEFAULT_PATH
          NO_CMAKE_FIND_ROOT_PATH)
if(NOT UWASA_NVCC OR NOT UWASA_CUDA_INCLUDE_DIR)
  message(FATAL_ERROR "UWASA_CUDA: no nvcc with its headers in PATH, CUDA_HOME or /usr/local/cuda: "
                      "install the CUDA Toolkit, or JetPack on the Jetson")
endif()
if(NOT CMAKE_CROSSCOMPILING)
  set(UWASA_CUDA_TARGET ${root})
endif()
find_library(UWASA_CUDART NAMES libcudart_static.a PATHS ${UWASA_CUDA_TARGET}
             PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
# cuDNN has packages of its own; Python's has its header elsewhere: -DUWASA_CUDNN_INCLUDE_DIR=...
find_path(UWASA_CUDNN_INCLUDE_DIR cudnn.h HINTS ${root}/include NO_CMAKE_FIND_ROOT_PATH)
if(NOT UWASA_CUDNN_INCLUDE_DIR)
  message(STATUS "No cudnn.h, which uwasa_cuda needs: install cuDNN's development package, or say "
                 "-DUWASA_CUDNN_INCLUDE_DIR=FOLDER")
endif()
mark_as_advanced(UWASA_NVCC UWASA_CUDA_INCLUDE_DIR UWASA_CUDNN_INCLUDE_DIR UWASA_CUDART)

# nvcc's own headers raise warnings in the host's compiler: no -Wall there. Without guards of static
# variables an object needs nothing of the C++ library.
function(uwasa_cuda_sources target)
  set(codes "")
  foreach(sm ${UWASA_CUDA_ARCHITECTURES})
    list(APPEND codes -gencode arch=compute_${sm},code=sm_${sm})
  endforeach()
  list(GET UWASA_CUDA_ARCHITECTURES -1 last)
  list(APPEND codes -gencode arch=compute_${last},code=compute_${last})
  if(UWASA_CUDA_HOST_COMPILER)
    list(PREPEND codes -ccbin ${UWASA_CUDA_HOST_COMPILER})
  endif()
  foreach(source ${ARGN})
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
    get_filename_component(folder ${object} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    add_custom_command(OUTPUT ${object}
      COMMAND ${UWASA_NVCC} ${codes} -std=c++17 -O3 -I${UWASA_CUDA_INCLUDE_DIR}
              "-I$<JOIN:$<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>,;-I>"
              -Xcompiler -fPIC,-fno-threadsafe-statics,-fno-exceptions -MD -MF ${object}.d
              -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} DEPFILE ${object}.d
      COMMAND_EXPAND_LISTS
      COMMENT "Compiling ${source} with nvcc" VERBATIM)
    target_sources(${target} PRIVATE ${object})
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  endforeach()
  target_include_directories(${target} SYSTEM PRIVATE ${UWASA_CUDA_INCLUDE_DIR})
  if(UWASA_CUDNN_INCLUDE_DIR)
    target_include_directories(${target} SYSTEM PRIVATE ${UWASA_CUDNN_INCLUDE_DIR})
  endif()
  if(UWASA_CUDART)
    find_package(Threads REQUIRED)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:${UWASA_CUDART}> Threads::Threads
                                            ${CMAKE_DL_LIBS} rt)
  endif()
endfunction()
