# What `cmake --install` puts where (GNUInstallDirs), and the Debian package that CPack makes of it (./dev package).
include(GNUInstallDirs)
find_program(AWK NAMES mawk gawk awk REQUIRED)
find_program(GZIP NAMES gzip REQUIRED)
set(SK_UNIT_DIR ${CMAKE_INSTALL_PREFIX}/lib/systemd/system CACHE PATH "Folder of systemd's units")
set(made ${CMAKE_BINARY_DIR}/install)
set(templates ${CMAKE_SOURCE_DIR}/deploy/install)
set(defaults ${CMAKE_INSTALL_FULL_SYSCONFDIR}/default/seckill)

# The program says what there is to set; the rest is made of that, and seckill@.service of the unit's template.
add_custom_command(
  OUTPUT ${made}/help
  COMMAND ${CMAKE_COMMAND} -E make_directory ${made}
  COMMAND seckill --help > ${made}/help
  DEPENDS seckill
  COMMENT "Asking seckill for its settings"
  VERBATIM)
function(make_from_help name) # [TEMPLATE INSTANCE]
  set(template ${name})
  if(ARGC GREATER 1)
    set(template ${ARGV1})
  endif()
  add_custom_command(
    OUTPUT ${made}/${name}
    COMMAND ${AWK} -v version=${SK_RELEASE} -v bindir=${CMAKE_INSTALL_FULL_BINDIR} -v defaults=${defaults}
            -v instance=${ARGV2} -v sandbox=${templates}/sandbox.in -f ${templates}/fill.awk ${made}/help ${templates}/${template}.in > ${made}/${name}
    DEPENDS ${made}/help ${templates}/fill.awk ${templates}/${template}.in ${templates}/sandbox.in
    COMMENT "Making ${name}"
    VERBATIM)
endfunction()
make_from_help(seckill.1)
make_from_help(seckill.bash)
make_from_help(seckill.default)
make_from_help(seckill.service)
make_from_help(seckill@.service seckill.service %i)
make_from_help(seckill-webhooks.service)
add_custom_command(
  OUTPUT ${made}/seckill.1.gz
  COMMAND ${GZIP} -9n < ${made}/seckill.1 > ${made}/seckill.1.gz
  DEPENDS ${made}/seckill.1
  VERBATIM)
add_custom_target(installed_files ALL
                  DEPENDS ${made}/seckill.1.gz ${made}/seckill.bash ${made}/seckill.default ${made}/seckill.service
                          ${made}/seckill@.service ${made}/seckill-webhooks.service)

install(TARGETS seckill RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${made}/seckill.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${made}/seckill.bash DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions RENAME seckill)
install(FILES ${made}/seckill.service ${made}/seckill@.service ${made}/seckill-webhooks.service DESTINATION ${SK_UNIT_DIR})
install(FILES README.md README.zh-CN.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY deploy/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples
        PATTERN install EXCLUDE
        PATTERN debian EXCLUDE)
# Settings that were changed stay.
install(CODE "
  set(settings \"\$ENV{DESTDIR}${defaults}\")
  if(EXISTS \"\${settings}\")
    message(STATUS \"Kept: \${settings}\")
  else()
    file(MAKE_DIRECTORY \"\$ENV{DESTDIR}${CMAKE_INSTALL_FULL_SYSCONFDIR}/default\")
    configure_file(\"${made}/seckill.default\" \"\${settings}\" COPYONLY)
  endif()")

if(SK_DEBIAN)
  include(${CMAKE_SOURCE_DIR}/deploy/debian/package.cmake)
endif()
