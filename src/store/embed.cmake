# Turns the files of some folders (lua/ and sql/) into one C header and source, so that the programs need no files
# at run time and no C file holds a script or a statement.
#   cmake -DSOURCE_DIR=... -DOUT_DIR=... -DNAME=embedded -DGUARD=SK_EMBEDDED_H [-DINCLUDE=header]
#         "-DGROUPS=script=SK_SCRIPT=lua/*.lua;..." -P embed.cmake
# A line "-- include: FILE" stands for that file, which lies beside it: without its comments and as one line, so that the
# numbers of all other lines stay. In such a file a comment may not follow a quote or a long bracket on its line: it
# could be a part of a text, which would be cut.
# A group gives enum sk_<name> with <prefix>_<FILE>, and the array sk_<name>s of the texts. INCLUDE names a header
# of ours that has struct sk_embedded already.

function(embed_include folder variable)
  set(text "${${variable}}")
  while("\n${text}" MATCHES "\n(-- include: ([a-z_/]+[.]lua))\n")
    set(line "${CMAKE_MATCH_1}")
    set(file "${folder}/${CMAKE_MATCH_2}")
    file(READ "${file}" included)
    string(REGEX REPLACE "(^|\n) *--[^\n]*" "\\1" included "${included}")
    if(included MATCHES "(['\"]|\\[=*\\[)[^\n]*--")
      message(FATAL_ERROR "${file}: `--` behind a quote or a long bracket")
    endif()
    string(REGEX REPLACE " *--[^\n]*" "" included "${included}")
    string(REGEX REPLACE "[ \n]+" " " included "${included}")
    string(REPLACE "${line}" "${included}" text "${text}")
  endwhile()
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()

function(embed group enum_prefix pattern)
  file(GLOB files "${SOURCE_DIR}/${pattern}")
  list(SORT files)
  set(enum "")
  set(rows "")
  foreach(file IN LISTS files)
    get_filename_component(name "${file}" NAME_WE)
    string(TOUPPER "${name}" upper)
    get_filename_component(folder "${file}" DIRECTORY)
    file(READ "${file}" text)
    embed_include("${folder}" text)
    string(REPLACE "\\" "\\\\" text "${text}")
    string(REPLACE "\"" "\\\"" text "${text}")
    string(REPLACE "\n" "\\n\"\n     \"" text "${text}")
    string(APPEND enum "    ${enum_prefix}_${upper},\n")
    string(APPEND rows "    {\"${name}\",\n     \"${text}\"},\n")
  endforeach()
  set(header "${header}enum sk_${group} {\n${enum}    ${enum_prefix}_COUNT\n};\nextern const struct sk_embedded sk_${group}s[${enum_prefix}_COUNT];\n\n" PARENT_SCOPE)
  set(source "${source}const struct sk_embedded sk_${group}s[${enum_prefix}_COUNT] = {\n${rows}};\n\n" PARENT_SCOPE)
endfunction()

set(header "// Made by embed.cmake.\n#ifndef ${GUARD}\n#define ${GUARD}\n\n")
if(DEFINED INCLUDE)
  string(APPEND header "#include \"${INCLUDE}\"\n\n")
else()
  string(APPEND header "struct sk_embedded {\n    const char *name;\n    const char *text;\n};\n\n")
endif()
set(source "#include \"${NAME}.h\"\n\n")
foreach(group IN LISTS GROUPS)
  string(REPLACE "=" ";" group "${group}")
  list(GET group 0 name)
  list(GET group 1 prefix)
  list(GET group 2 pattern)
  embed(${name} ${prefix} ${pattern})
endforeach()
string(APPEND header "#endif\n")
# The header stays as it is if only texts have changed: most of the program includes it.
file(CONFIGURE OUTPUT "${OUT_DIR}/${NAME}.h" CONTENT "${header}" @ONLY)
file(WRITE "${OUT_DIR}/${NAME}.c" "${source}")
