# Texts that become part of a program, so that they are files that one can read.
#
# embed_text(<target> <file.ext>): `const char <folder>_<name>_<ext>[]`.
# embed_sql(<target> <file.sql>): the same. A line `.read FILE`, with a path from the root of the
#   tree as sqlite3(1) reads it there, becomes that file's text.
# embed_store(<target>): the folder's store.sql, and `const char *const <target>_upgrades[]` with
#   upgrade/01-*.sql, 02-*.sql …, one step each, in the order of their numbers.
function(sql_text file out)
  file(READ ${file} text)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  string(REGEX MATCHALL "(^|\n)\\.read [^\n]+\n" reads "${text}")
  foreach(read ${reads})
    string(STRIP "${read}" read)
    string(REPLACE ".read " "" name "${read}")
    sql_text(${CMAKE_SOURCE_DIR}/${name} inner)
    string(REPLACE "${read}\n" "${inner}" text "${text}")
  endforeach()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

function(c_bytes text out)
  string(HEX "${text}" hex)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  set(${out} "{${bytes}0}" PARENT_SCOPE)
endfunction()

function(symbol_of file out)
  get_filename_component(name ${file} NAME)
  get_filename_component(folder ${file} DIRECTORY)
  get_filename_component(folder ${folder} NAME)
  string(MAKE_C_IDENTIFIER ${folder}_${name} symbol)
  set(${out} ${symbol} PARENT_SCOPE)
endfunction()

function(embed target symbol text)
  c_bytes("${text}" bytes)
  set(c ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.c)
  file(WRITE ${c} "extern const char ${symbol}[];\nconst char ${symbol}[] = ${bytes};\n")
  target_sources(${target} PRIVATE ${c})
endfunction()

function(embed_text target file)
  get_filename_component(file ${file} ABSOLUTE)
  symbol_of(${file} symbol)
  file(READ ${file} text)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  embed(${target} ${symbol} "${text}")
endfunction()

function(embed_sql target file)
  get_filename_component(file ${file} ABSOLUTE)
  symbol_of(${file} symbol)
  sql_text(${file} text)
  embed(${target} ${symbol} "${text}")
endfunction()

function(embed_store target)
  embed_sql(${target} store.sql)
  file(GLOB steps CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/upgrade/*.sql)
  list(SORT steps)
  set(texts "")
  set(list "")
  set(n 0)
  foreach(step ${steps})
    math(EXPR n "${n} + 1")
    get_filename_component(name ${step} NAME)
    if(NOT name MATCHES "^0*${n}-")
      message(FATAL_ERROR "${step}: step ${n} of a store is a file upgrade/${n}-NAME.sql")
    endif()
    sql_text(${step} text)
    c_bytes("${text}" bytes)
    string(APPEND texts "static const char step_${n}[] = ${bytes};\n")
    string(APPEND list "step_${n}, ")
  endforeach()
  string(TOUPPER ${target} upper)
  set(c ${CMAKE_CURRENT_BINARY_DIR}/${target}_upgrades.c)
  file(WRITE ${c} "#include \"stores.h\"\n${texts}"
    "extern const char *const ${target}_upgrades[${upper}_SCHEMA];\n"
    "const char *const ${target}_upgrades[] = {${list}};\n"
    "_Static_assert(${n} == ${upper}_SCHEMA, \"${upper}_SCHEMA in stores.h: "
    "the number of steps in ${target}/upgrade\");\n")
  target_sources(${target} PRIVATE ${c})
endfunction()
