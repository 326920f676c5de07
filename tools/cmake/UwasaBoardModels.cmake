# SPDX-License-Identifier: Apache-2.0
# uwasa_board_models(<target> <name> MODELS MODEL.json... [WITH part...] [SLOTS slot=variant...])
# tools/board_model writes <name>.c, which is added to the target, and <name>.h, which the target
# includes: the models, a kernel table for them, and the parts of the runtime that they need.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(UWASA_BOARD_MODEL ${CMAKE_CURRENT_LIST_DIR}/../board_model)

function(uwasa_board_models target name)
  cmake_parse_arguments(arg "" "" "MODELS;WITH;SLOTS" ${ARGN})
  string(REPLACE ";" "," with "${arg_WITH}")
  string(REPLACE ";" "," slots "${arg_SLOTS}")
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${target}.models)
  file(MAKE_DIRECTORY ${folder})
  list(TRANSFORM arg_MODELS REPLACE "^([^/].*)$" "${CMAKE_CURRENT_SOURCE_DIR}/\\1")
  add_custom_command(OUTPUT ${folder}/${name}.c ${folder}/${name}.h
    COMMAND Python3::Interpreter ${UWASA_BOARD_MODEL} --with=${with} --slots=${slots}
            ${folder}/${name}.c ${arg_MODELS}
    DEPENDS ${arg_MODELS} ${UWASA_BOARD_MODEL} COMMENT "Writing ${name}.c" VERBATIM)
  target_sources(${target} PRIVATE ${folder}/${name}.c ${folder}/${name}.h)
  target_include_directories(${target} PRIVATE ${folder})
endfunction()
