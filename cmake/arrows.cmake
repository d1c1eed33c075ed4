# Run as a script before anything compiles. The include paths of each target forbid a plain
# include against the arrows (lib/CMakeLists.txt); this also forbids the way round them, a
# path in an include.
file(GLOB_RECURSE sources ${ROOT}/lib/*.[ch] ${ROOT}/proto/*.[ch]
  ${ROOT}/ingress/*.[ch] ${ROOT}/sequencer/*.[ch] ${ROOT}/deliverer/*.[ch]
  ${ROOT}/dlqd/*.[ch] ${ROOT}/outbox/*.[ch] ${ROOT}/reconcile/*.[ch] ${ROOT}/console/*.[ch] ${ROOT}/ctl/*.[ch])
foreach(source ${sources})
  file(STRINGS ${source} wrong REGEX "^[ \t]*#[ \t]*include[ \t]+\"[^\"]*/")
  if(wrong)
    message(FATAL_ERROR "${source}: ${wrong}\n"
      "An include names a file, never a path: arrows go from lib and proto to the "
      "processes only (docs/ARCHITECTURE.md).")
  endif()
endforeach()
