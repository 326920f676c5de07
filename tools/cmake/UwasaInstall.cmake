# SPDX-License-Identifier: Apache-2.0
# The installed package, for find_package(uwasa) and pkg-config uwasa. Included last, when all
# libraries and their dependencies are known.

get_property(libraries GLOBAL PROPERTY UWASA_LIBRARIES)

# Packages that the libraries link: MbedTLS::mbedtls belongs to package MbedTLS, and so on.
set(packages "")
foreach(library ${libraries})
  get_target_property(links uwasa_${library} LINK_LIBRARIES)
  foreach(package Nanopb MbedTLS Threads MPI)
    if(links MATCHES "(^|[;:<])${package}::")
      list(APPEND packages ${package})
    endif()
  endforeach()
endforeach()
list(REMOVE_DUPLICATES packages)

set(UWASA_FIND_DEPENDENCIES "")
foreach(package ${packages})
  string(APPEND UWASA_FIND_DEPENDENCIES "find_dependency(${package})\n")
endforeach()
list(JOIN libraries ", uwasa::" UWASA_EXPORTED)
list(JOIN libraries " " UWASA_PARTS)

# A static archive must come before those it uses; the libraries are listed the other way round.
set(UWASA_PC_LIBS "")
foreach(library ${libraries})
  string(PREPEND UWASA_PC_LIBS "-luwasa_${library} ")
endforeach()
set(pc_Nanopb "-lprotobuf-nanopb")
set(pc_MbedTLS "-lmbedtls -lmbedx509 -lmbedcrypto")
set(pc_Threads "-pthread")
list(JOIN MPI_C_LIBRARIES " " pc_MPI)
foreach(package ${packages})
  string(APPEND UWASA_PC_LIBS "${pc_${package}} ")
endforeach()
string(APPEND UWASA_PC_LIBS "-lm")

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/uwasa)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/uwasaConfig.cmake.in
                              ${CMAKE_BINARY_DIR}/package/uwasaConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/uwasaConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/package/uwasaConfig.cmake
              ${CMAKE_BINARY_DIR}/package/uwasaConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindMbedTLS.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindNanopb.cmake
        DESTINATION ${package_dir})
install(EXPORT uwasa NAMESPACE uwasa:: FILE uwasaTargets.cmake DESTINATION ${package_dir})

# Written at installation, because `cmake --install --prefix` may change the prefix.
install(CODE "
  set(UWASA_PC_LIBS \"${UWASA_PC_LIBS}\")
  set(CMAKE_INSTALL_LIBDIR \"${CMAKE_INSTALL_LIBDIR}\")
  set(CMAKE_INSTALL_INCLUDEDIR \"${CMAKE_INSTALL_INCLUDEDIR}\")
  set(PROJECT_DESCRIPTION \"${PROJECT_DESCRIPTION}\")
  set(PROJECT_VERSION \"${PROJECT_VERSION}\")
  configure_file(\"${CMAKE_CURRENT_LIST_DIR}/uwasa.pc.in\"
                 \"${CMAKE_BINARY_DIR}/package/uwasa.pc\" @ONLY)")
install(FILES ${CMAKE_BINARY_DIR}/package/uwasa.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
