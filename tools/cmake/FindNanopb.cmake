# SPDX-License-Identifier: Apache-2.0
# nanopb's runtime and, as an optional component, its generator.
#
#   Nanopb::nanopb         imported target; in a cross build without a library for the target it has
#                          only the headers, which is enough to build static archives
#   NANOPB_GENERATOR       nanopb_generator.py or nanopb_generator
#   NANOPB_PROTOC, NANOPB_PROTOC_PLUGIN      used if there is no NANOPB_GENERATOR
#   uwasa_nanopb_generate(<target> <file.proto>)
#                          at build time, writes <file>.pb.c and .pb.h and adds them to target;
#                          uses <file>.options next to the .proto
#
# Components: "generator" makes the generator required.

find_path(NANOPB_INCLUDE_DIR pb_decode.h PATH_SUFFIXES nanopb)
find_library(NANOPB_LIBRARY NAMES protobuf-nanopb nanopb)
mark_as_advanced(NANOPB_INCLUDE_DIR NANOPB_LIBRARY)

# A target without an operating system has no library folders, but the host's headers of nanopb are
# plain C and fit. They are copied, because their folder also has headers of the host's C library.
set(Nanopb_include ${NANOPB_INCLUDE_DIR})
if(CMAKE_CROSSCOMPILING AND NOT NANOPB_LIBRARY AND NOT TARGET Nanopb::nanopb)
  find_path(NANOPB_HOST_INCLUDE_DIR pb_decode.h PATHS /usr/include /usr/local/include
            PATH_SUFFIXES nanopb NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
  mark_as_advanced(NANOPB_HOST_INCLUDE_DIR)
  if(NANOPB_HOST_INCLUDE_DIR)
    set(Nanopb_include ${CMAKE_BINARY_DIR}/nanopb/include)
    foreach(header pb.h pb_common.h pb_decode.h pb_encode.h)
      configure_file(${NANOPB_HOST_INCLUDE_DIR}/${header} ${Nanopb_include}/${header} COPYONLY)
    endforeach()
  endif()
endif()

find_program(NANOPB_GENERATOR NAMES nanopb_generator nanopb_generator.py)
find_program(NANOPB_PROTOC protoc)
find_program(NANOPB_PROTOC_PLUGIN protoc-gen-nanopb)
mark_as_advanced(NANOPB_GENERATOR NANOPB_PROTOC NANOPB_PROTOC_PLUGIN)
if(NANOPB_GENERATOR OR (NANOPB_PROTOC AND NANOPB_PROTOC_PLUGIN))
  set(Nanopb_generator_FOUND TRUE)
endif()

set(Nanopb_required Nanopb_include)
if(NOT CMAKE_CROSSCOMPILING)
  list(APPEND Nanopb_required NANOPB_LIBRARY)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Nanopb
  REQUIRED_VARS ${Nanopb_required}
  HANDLE_COMPONENTS
  REASON_FAILURE_MESSAGE "(Debian packages nanopb and libnanopb-dev, tools/setup installs them)")

if(Nanopb_FOUND AND TARGET uwasa_source_nanopb AND NOT TARGET Nanopb::nanopb)
  add_library(Nanopb::nanopb ALIAS uwasa_source_nanopb)
elseif(Nanopb_FOUND AND NOT TARGET Nanopb::nanopb)
  if(NANOPB_LIBRARY)
    add_library(Nanopb::nanopb UNKNOWN IMPORTED)
    set_target_properties(Nanopb::nanopb PROPERTIES IMPORTED_LOCATION ${NANOPB_LIBRARY})
  else()
    add_library(Nanopb::nanopb INTERFACE IMPORTED)
  endif()
  set_target_properties(Nanopb::nanopb PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES ${Nanopb_include})
endif()

function(uwasa_nanopb_generate target proto)
  get_filename_component(proto ${proto} ABSOLUTE)
  get_filename_component(folder ${proto} DIRECTORY)
  get_filename_component(name ${proto} NAME_WE)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/proto)
  set(made ${out}/${name}.pb.c ${out}/${name}.pb.h)
  set(sources ${proto})
  if(EXISTS ${folder}/${name}.options)
    list(APPEND sources ${folder}/${name}.options)
  endif()
  if(NANOPB_GENERATOR)
    set(generate ${NANOPB_GENERATOR} --quiet --error-on-unmatched -I ${folder} -D ${out}
                 ${name}.proto)
  else()
    set(generate ${NANOPB_PROTOC} --plugin=protoc-gen-nanopb=${NANOPB_PROTOC_PLUGIN} -I ${folder}
                 --nanopb_out=${out} ${name}.proto)
  endif()
  file(MAKE_DIRECTORY ${out})
  add_custom_command(OUTPUT ${made} COMMAND ${generate} DEPENDS ${sources}
                     WORKING_DIRECTORY ${folder} COMMENT "Generating ${name}.pb.c" VERBATIM)
  target_sources(${target} PRIVATE ${made})
  # Generated code is not free of these warnings.
  set_source_files_properties(${out}/${name}.pb.c PROPERTIES COMPILE_OPTIONS
                              "-Wno-conversion;-Wno-sign-conversion;-Wno-undef")
  target_include_directories(${target} SYSTEM PRIVATE ${out})
  target_link_libraries(${target} PRIVATE Nanopb::nanopb)
endfunction()
