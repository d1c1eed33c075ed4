# embed_sql(<target> <file.sql>): gives <target> the file's text as
# `const char <folder>_<name>_sql[]`, so that the schema is a file one can read.
# embed_text(<target> <file.ext>): the same of any text, `<folder>_<name>_<ext>`.
function(embed_text target file)
  get_filename_component(name ${file} NAME_WE)
  get_filename_component(ext ${file} EXT)
  string(REPLACE "." "_" ext ${ext})
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  set(c ${CMAKE_CURRENT_BINARY_DIR}/${name}${ext}.c)
  file(WRITE ${c}
    "extern const char ${folder}_${name}${ext}[];\n"
    "const char ${folder}_${name}${ext}[] = {${bytes}0};\n")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  target_sources(${target} PRIVATE ${c})
endfunction()

function(embed_sql target sql)
  embed_text(${target} ${sql})
endfunction()
