# What `cmake --install` installs: bmoe-cli, the headers of include/bmoe, and the library with a CMake package, so that
#
#   find_package(bmoe REQUIRED)
#   target_link_libraries(<program> PRIVATE bmoe::bmoe)
#
# is all that a user of the library needs. The library is one archive of bmoe's and llama.cpp's static libraries.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Every static library that `target` is linked with, itself included.
function(bmoe_collect_archives target out)
    set(found ${${out}})
    get_target_property(aliased ${target} ALIASED_TARGET)
    if(aliased)
        set(target ${aliased})
    endif()
    get_target_property(type ${target} TYPE)
    get_target_property(imported ${target} IMPORTED)
    if(imported OR target IN_LIST found)
        return()
    endif()
    if(type STREQUAL "STATIC_LIBRARY")
        list(APPEND found ${target})
    endif()
    foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
        get_target_property(libraries ${target} ${property})
        foreach(library IN LISTS libraries)
            string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" library "${library}")
            if(TARGET ${library})
                bmoe_collect_archives(${library} found)
            endif()
        endforeach()
    endforeach()
    set(${out} ${found} PARENT_SCOPE)
endfunction()

set(bmoe_archives)
bmoe_collect_archives(bmoe_api bmoe_archives)
set(bmoe_archive ${PROJECT_BINARY_DIR}/lib/libbmoe.a)
list(TRANSFORM bmoe_archives REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE bmoe_archive_files)
add_custom_command(
    OUTPUT ${bmoe_archive}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/lib
    COMMAND ${CMAKE_COMMAND} -E rm -f ${bmoe_archive}
    COMMAND ${CMAKE_AR} qcLs ${bmoe_archive} ${bmoe_archive_files}
    DEPENDS ${bmoe_archives}
    COMMENT "Joining static libraries to lib/libbmoe.a"
    VERBATIM)
add_custom_target(bmoe_archive ALL DEPENDS ${bmoe_archive})

if(TARGET PkgConfig::LIBURING AND NOT ANDROID)
    set(BMOE_USES_LIBURING ON)
else()
    set(BMOE_USES_LIBURING OFF)
endif()
configure_package_config_file(cmake/bmoeConfig.cmake.in ${PROJECT_BINARY_DIR}/package/bmoeConfig.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/bmoe
    PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/bmoeConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS bmoe-cli)
install(FILES ${bmoe_archive} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/bmoe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_BINARY_DIR}/package/bmoeConfig.cmake ${PROJECT_BINARY_DIR}/package/bmoeConfigVersion.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/bmoe)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${BMOE_LLAMA_CPP_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME LICENSE.llama.cpp)
