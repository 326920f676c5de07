# SPDX-License-Identifier: Apache-2.0
# cmake -DOUT=<file.c> -DMODELS=<a.json,b.json> -P embed_models.cmake
# Writes the built-in models (model_json.h) as C arrays; a model's name is its file's name.
string(REPLACE "," ";" MODELS "${MODELS}")
set(arrays "")
set(rows "")
set(i 0)
foreach(model IN LISTS MODELS)
  get_filename_component(name ${model} NAME_WE)
  file(READ ${model} hex HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND arrays "static const char model_${i}[] = {\n${bytes}0};\n")
  string(APPEND rows "    {\"${name}\", model_${i}},\n")
  math(EXPR i "${i} + 1")
endforeach()
file(WRITE ${OUT} "/* SPDX-License-Identifier: Apache-2.0 */\n"
  "#include \"model/model_json.h\"\n\n${arrays}\n"
  "const struct uw_model_builtin uw_model_builtins[] = {\n${rows}};\n"
  "const uint32_t uw_model_builtins_n = ${i};\n")
