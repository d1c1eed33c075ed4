# grapnel_target(<target>): our warnings, our sanitizers, asserts kept.
set(GRAPNEL_SANITIZE "" CACHE STRING "e.g. address,undefined or thread")

# An assert is a bug of ours; it stays on in release. GRAPNEL_DEBUG adds checks of rows,
# which a damaged disk may change, too.
foreach(flags CMAKE_C_FLAGS_RELEASE CMAKE_C_FLAGS_RELWITHDEBINFO)
  string(REPLACE "-DNDEBUG" "" ${flags} "${${flags}}")
endforeach()

function(grapnel_target target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Werror
    -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wvla)
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE
    $<$<CONFIG:Debug>:GRAPNEL_DEBUG>)
  if(GRAPNEL_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${GRAPNEL_SANITIZE}
      -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(${target} PRIVATE -fsanitize=${GRAPNEL_SANITIZE})
  endif()
endfunction()
