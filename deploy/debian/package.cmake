# The Debian package: what is installed, with Debian's files beside it, by CPack's DEB generator.
set(debian ${CMAKE_SOURCE_DIR}/deploy/debian)
# Who answers for the package: who builds it. dpkg wants a name and an address; this one leads nowhere.
set(SK_MAINTAINER "seckill packager <packager@seckill.example>" CACHE STRING "Maintainer of the Debian package")
string(TIMESTAMP SK_DEBIAN_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC) # SOURCE_DATE_EPOCH, if it is set
configure_file(${debian}/changelog.in ${made}/changelog @ONLY)
add_custom_command(
  OUTPUT ${made}/changelog.gz
  COMMAND ${GZIP} -9n < ${made}/changelog > ${made}/changelog.gz
  DEPENDS ${made}/changelog
  VERBATIM)
add_custom_command(
  OUTPUT ${made}/sbom.cdx.json
  COMMAND ${templates}/sbom ${SK_RELEASE} $<TARGET_FILE:seckill> > ${made}/sbom.cdx.json
  DEPENDS seckill ${templates}/sbom
  VERBATIM)
add_custom_target(debian_files ALL DEPENDS ${made}/changelog.gz ${made}/sbom.cdx.json)
install(FILES ${made}/changelog.gz ${made}/sbom.cdx.json ${debian}/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${debian}/lintian-overrides DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/lintian/overrides RENAME seckill)

set(CPACK_GENERATOR DEB)
set(CPACK_SET_DESTDIR ON) # /etc is not below the prefix
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_NAME seckill)
set(CPACK_PACKAGE_VERSION ${SK_RELEASE})
set(CPACK_PACKAGE_VENDOR "The seckill authors")
set(CPACK_PACKAGE_CONTACT ${SK_MAINTAINER})
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION httpd)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# `seckill webhooks` checks the certificates of receivers by them.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "redis-server (>= 5:7), postgresql (>= 15), nginx, curl")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "flash-sale order service on Redis and PostgreSQL
Sells N units to a crowd of 100 x N in seconds: Redis decides fast, PostgreSQL
decides last. A voucher is never oversold, each user gets one order, and an
order that was answered with 201 is committed.

The service runs behind a gateway, in as many instances as are needed on one
Redis and one PostgreSQL. The package starts nothing by itself: it has to be
told where the stores are.")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${debian}/conffiles ${debian}/postinst ${debian}/prerm ${debian}/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
