# The Debian package, as tools/package builds it with the preset `package`: what
# `cmake --install` installs, with what Debian's policy asks for beside it.
file(STRINGS /etc/os-release lines REGEX "^(ID|VERSION_ID)=")
foreach(line ${lines})
  if(line MATCHES "^([A-Z_]+)=\"?([^\"]*)\"?$")
    set(OS_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
  endif()
endforeach()
string(REPLACE "debian" "deb" OS_ID "${OS_ID}")

# A package of Debian 13 replaces the one of Debian 12 when the system is upgraded.
set(CPACK_DEBIAN_PACKAGE_RELEASE 1~${OS_ID}${OS_VERSION_ID})
set(PACKAGE_FULL_VERSION ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
set(PACKAGE_MAINTAINER "The Grapnel authors <authors@grapnel.invalid>")
execute_process(COMMAND date -u -R -d @$ENV{SOURCE_DATE_EPOCH}
  OUTPUT_VARIABLE PACKAGE_DATE OUTPUT_STRIP_TRAILING_WHITESPACE
  COMMAND_ERROR_IS_FATAL ANY)

# The text of the licence as Debian wants paragraphs: indented, dots for empty lines.
file(STRINGS ${PROJECT_SOURCE_DIR}/LICENSE lines)
list(SUBLIST lines 4 -1 lines) # after its title and the copyright
foreach(line IN LISTS lines)
  if(line STREQUAL "")
    set(line .)
  endif()
  string(APPEND LICENSE_PARAGRAPHS " ${line}\n")
endforeach()

set(debian ${PROJECT_SOURCE_DIR}/packaging/debian)
set(made ${PROJECT_BINARY_DIR}/debian)
configure_file(${debian}/copyright.in ${made}/copyright @ONLY)
configure_file(${debian}/changelog.in ${made}/changelog.Debian @ONLY)

# gzipped(<file> <destination folder> <name>): installs the file as <name>.gz.
function(gzipped file destination name)
  set(gz ${made}/${name}.gz)
  add_custom_command(OUTPUT ${gz} COMMAND gzip -9nc ${file} > ${gz}
    DEPENDS ${file} VERBATIM)
  install(FILES ${gz} DESTINATION ${destination})
  set_property(GLOBAL APPEND PROPERTY gzipped ${gz})
endfunction()

set(doc ${CMAKE_INSTALL_DOCDIR})
gzipped(${made}/changelog.Debian ${doc} changelog.Debian)
if(EXISTS ${PROJECT_SOURCE_DIR}/CHANGELOG.md)
  gzipped(${PROJECT_SOURCE_DIR}/CHANGELOG.md ${doc} changelog)
endif()
install(FILES ${made}/copyright ${PROJECT_SOURCE_DIR}/README.md
  ${PROJECT_SOURCE_DIR}/SECURITY.md DESTINATION ${doc})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${doc})
install(FILES ${debian}/grapnel.yaml DESTINATION ${CMAKE_INSTALL_SYSCONFDIR}/grapnel)
install(FILES ${debian}/lintian-overrides
  DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME grapnel)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT ${PACKAGE_MAINTAINER})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "webhook pipeline that loses no event")
set(CPACK_PACKAGE_DESCRIPTION
"Grapnel receives webhooks over HTTP, verifies who sent them, stores them,
numbers each workspace's events and notices missing ones, and delivers each
event to every subscribed endpoint, retrying until it succeeds or its retry
budget is used up. What can't be delivered is kept with the reason, and can be
sent again. It needs no database server and no broker.")
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE
  OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_NAME grapnel)
set(CPACK_DEBIAN_PACKAGE_SECTION web)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# ca-certificates: without it no HTTPS endpoint can be verified.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "ca-certificates, \
systemd | systemd-standalone-sysusers | systemd-sysusers")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "nginx, prometheus, supervisor")
set(CPACK_DEBIAN_DEBUGINFO_PACKAGE ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${debian}/postinst ${debian}/prerm ${debian}/postrm ${debian}/conffiles)
include(CPack)
