# SPDX-License-Identifier: Apache-2.0
# CUDA by one call of nvcc for each .cu file. CMake's language CUDA is not used: in a cross build it
# has to link a program to identify the compiler.
#
#   UWASA_NVCC, UWASA_CUDA_INCLUDE_DIR, UWASA_CUDNN_INCLUDE_DIR     the compiler and headers
#   UWASA_CUDART                            the runtime for the target; NOTFOUND: nothing is linked
#   UWASA_CUDA_VERSION, UWASA_CUDA_CODES    "13.0"; "sm_87 sm_110", for reports
#   uwasa_cuda_sources(<target> <file.cu> ...)    compile for UWASA_CUDA_ARCHITECTURES, add to target
#
# UWASA_CUDA_TARGET is a folder whose lib/ has the target's runtime; UWASA_CUDA_HOST_COMPILER
# compiles the host's code of a .cu file. With UWASA_CUDA=emulated the processor's own compiler
# takes the place of nvcc, and tests/gpu/emulated that of the runtime.

include_guard(DIRECTORY)
# Updates round after the multiplication and after the addition, as on the processor. So nodes with
# and without a GPU get the same bits from the same gradients.
set(UWASA_CUDA_UNFUSED cuda/update.cu)
if(UWASA_CUDA STREQUAL "emulated")
  include(UwasaCudaEmulated)
  return()
endif()

set(UWASA_CUDA_ARCHITECTURES "87;110" CACHE STRING
    "Compute capabilities of the GPUs, or native; code for later ones is made from the last at run \
time")
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
find_path(UWASA_CUBLAS_INCLUDE_DIR cublas_v2.h HINTS ${UWASA_CUDA_INCLUDE_DIR} NO_CMAKE_FIND_ROOT_PATH)
if(NOT UWASA_CUBLAS_INCLUDE_DIR)
  message(FATAL_ERROR "UWASA_CUDA: no cublas_v2.h beside ${UWASA_CUDA_INCLUDE_DIR}: install cuBLAS's "
                      "headers (Debian package libcublas-dev-13-0), or give "
                      "-DUWASA_CUBLAS_INCLUDE_DIR=FOLDER")
endif()
find_path(UWASA_CUDNN_INCLUDE_DIR cudnn.h HINTS ${UWASA_CUDA_INCLUDE_DIR}
          PATH_SUFFIXES ${CMAKE_SYSTEM_PROCESSOR}-linux-gnu NO_CMAKE_FIND_ROOT_PATH)
if(NOT UWASA_CUDNN_INCLUDE_DIR)
  message(FATAL_ERROR "UWASA_CUDA: no cudnn.h beside CUDA or in /usr/include: install cuDNN's headers "
                      "(package cudnn9-cuda-13 of NVIDIA, cudnn of JetPack, or pip install "
                      "nvidia-cudnn-cu13), and give -DUWASA_CUDNN_INCLUDE_DIR=FOLDER where they are "
                      "in a folder of their own")
endif()
if(NOT CMAKE_CROSSCOMPILING)
  set(UWASA_CUDA_TARGET ${root})
endif()
find_library(UWASA_CUDART NAMES libcudart_static.a PATHS ${UWASA_CUDA_TARGET}
             PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
mark_as_advanced(UWASA_NVCC UWASA_CUDA_INCLUDE_DIR UWASA_CUDART UWASA_CUBLAS_INCLUDE_DIR
                 UWASA_CUDNN_INCLUDE_DIR)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

file(STRINGS ${UWASA_CUDA_INCLUDE_DIR}/cuda_runtime_api.h version REGEX "define CUDART_VERSION ")
string(REGEX MATCH "[0-9]+" version "${version}")
math(EXPR major "${version} / 1000")
math(EXPR minor "${version} % 1000 / 10")
set(UWASA_CUDA_VERSION ${major}.${minor})

# native: the GPUs of this machine, or if it has none, one of each generation that nvcc supports.
set(architectures ${UWASA_CUDA_ARCHITECTURES})
if(architectures STREQUAL "native")
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                  OUTPUT_VARIABLE architectures ERROR_QUIET RESULT_VARIABLE failed)
  string(REGEX MATCHALL "[0-9]+\\.[0-9]+" architectures "${architectures}")
  string(REPLACE "." "" architectures "${architectures}")
  if(failed OR NOT architectures OR CMAKE_CROSSCOMPILING)
    execute_process(COMMAND ${UWASA_NVCC} --list-gpu-arch OUTPUT_VARIABLE known)
    string(REGEX MATCHALL "compute_[0-9]+" known "${known}")
    set(architectures "")
    foreach(sm 80 87 90 100 110 120)
      if(compute_${sm} IN_LIST known)
        list(APPEND architectures ${sm})
      endif()
    endforeach()
    message(STATUS "UWASA_CUDA_ARCHITECTURES=native: no GPU here, so code for ${architectures}")
  endif()
  list(REMOVE_DUPLICATES architectures)
  list(SORT architectures COMPARE NATURAL)
endif()
set(UWASA_CUDA_CODES ${architectures})
list(TRANSFORM UWASA_CUDA_CODES PREPEND sm_)

# No -Wall: nvcc's own headers cause warnings of the host's compiler. -fno-threadsafe-statics: then
# objects need nothing of the C++ library.
function(uwasa_cuda_sources target)
  set(codes "")
  foreach(code ${UWASA_CUDA_CODES})
    string(REPLACE sm_ "" sm ${code})
    list(APPEND codes -gencode arch=compute_${sm},code=sm_${sm})
  endforeach()
  list(APPEND codes -gencode arch=compute_${sm},code=compute_${sm})
  if(UWASA_CUDA_HOST_COMPILER)
    list(PREPEND codes -ccbin ${UWASA_CUDA_HOST_COMPILER})
  endif()
  foreach(source ${ARGN})
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
    set(unfused "")
    if(source IN_LIST UWASA_CUDA_UNFUSED)
      set(unfused -fmad=false)
    endif()
    get_filename_component(folder ${object} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    add_custom_command(OUTPUT ${object}
      COMMAND ${UWASA_NVCC} ${codes} -std=c++17 -O3 ${unfused} -I${UWASA_CUDA_INCLUDE_DIR}
              "-I$<JOIN:$<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>,;-I>"
              -Xcompiler -fPIC,-fno-threadsafe-statics,-fno-exceptions -MD -MF ${object}.d
              -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} DEPFILE ${object}.d
      COMMAND_EXPAND_LISTS
      COMMENT "Compiling ${source} with nvcc" VERBATIM)
    target_sources(${target} PRIVATE ${object})
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  endforeach()
  target_include_directories(${target} SYSTEM PRIVATE ${UWASA_CUDA_INCLUDE_DIR}
                             ${UWASA_CUBLAS_INCLUDE_DIR} ${UWASA_CUDNN_INCLUDE_DIR})
  if(UWASA_CUDART)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:${UWASA_CUDART}> Threads::Threads
                                            ${CMAKE_DL_LIBS} rt)
  endif()
endfunction()
