# Run as a script before anything compiles: base <- proto <- process, and no
# process reaches into another. Include paths already forbid a plain include;
# this also forbids the way round them, a path in an include.
file(GLOB_RECURSE sources ${ROOT}/base/*.[ch] ${ROOT}/proto/*.[ch]
  ${ROOT}/ingress/*.[ch] ${ROOT}/sequencer/*.[ch] ${ROOT}/deliverer/*.[ch]
  ${ROOT}/dlqd/*.[ch] ${ROOT}/console/*.[ch] ${ROOT}/ctl/*.[ch])
foreach(source ${sources})
  file(STRINGS ${source} wrong REGEX "^[ \t]*#[ \t]*include[ \t]+\"[^\"]*/")
  if(wrong)
    message(FATAL_ERROR "${source}: ${wrong}\n"
      "An include names a file, never a path: arrows go base <- proto <- "
      "process (docs/ARCHITECTURE.md).")
  endif()
endforeach()
