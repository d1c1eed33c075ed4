# grapnel_folder_library(<name> <library>…): a folder without its main.c as the library <name>.
# A folder may have sub-folders; a file of any of them includes a file of another by its name
# alone. A sub-folder with a CMakeLists.txt is left out.
function(grapnel_folder_library name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.c)
  list(FILTER sources EXCLUDE REGEX "/main\\.c$")
  file(GLOB others CONFIGURE_DEPENDS */CMakeLists.txt)
  foreach(other ${others})
    get_filename_component(other ${other} DIRECTORY)
    list(FILTER sources EXCLUDE REGEX "^${other}/")
  endforeach()
  add_library(${name} STATIC ${sources})
  set(folders ${CMAKE_CURRENT_SOURCE_DIR})
  foreach(source ${sources})
    get_filename_component(folder ${source} DIRECTORY)
    list(APPEND folders ${folder})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  target_include_directories(${name} PUBLIC ${folders})
  target_link_libraries(${name} PUBLIC daemon ${ARGN})
  grapnel_target(${name})
endfunction()

# grapnel_process(<name> <library>…): a daemon's folder as the library <name>,
# so that unit tests reach its pure files, and main.c as grapnel-<name>.
function(grapnel_process name)
  grapnel_folder_library(${name} ${ARGN})
  embed_store(${name})
  add_executable(grapnel-${name} main.c)
  target_link_libraries(grapnel-${name} PRIVATE ${name})
  grapnel_target(grapnel-${name})
endfunction()
