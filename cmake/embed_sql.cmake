# embed_sql(<target> <file.sql>): gives <target> the file's text as
# `const char <name>_sql[]`, so that the schema is a file one can read.
function(embed_sql target sql)
  get_filename_component(name ${sql} NAME_WE)
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  file(READ ${sql} hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  set(c ${CMAKE_CURRENT_BINARY_DIR}/${name}_sql.c)
  file(WRITE ${c}
    "extern const char ${folder}_${name}_sql[];\n"
    "const char ${folder}_${name}_sql[] = {${bytes}0};\n")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sql})
  target_sources(${target} PRIVATE ${c})
endfunction()
