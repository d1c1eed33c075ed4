# grapnel_process(<name> <library>…): a daemon's folder as the library <name>,
# so that unit tests reach its pure files, and main.c as grapnel-<name>.
function(grapnel_process name)
  file(GLOB sources CONFIGURE_DEPENDS *.c)
  list(FILTER sources EXCLUDE REGEX "/main\\.c$")
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC daemon ${ARGN})
  embed_store(${name})
  grapnel_target(${name})
  add_executable(grapnel-${name} main.c)
  target_link_libraries(grapnel-${name} PRIVATE ${name})
  grapnel_target(grapnel-${name})
endfunction()
