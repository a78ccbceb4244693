# bmoe_test(NAME <name> SOURCES <file>... LIBS <target>... [LABELS <label>...] [TIMEOUT <seconds>] [ENV <VAR=value>...]
#           [SERIAL])
#
# A GoogleTest program, with each of its cases known to ctest. Labels say where it runs:
#   unit   (the default) needs no llama.cpp; runs under address and undefined behaviour sanitizers too (bmoe_unit_tests)
#   tsan   also runs under the thread sanitizer (bmoe_tsan_tests); give it together with unit
# Any other label: in the release build only. TIMEOUT is per case. SERIAL: nothing else runs meanwhile, for tests whose compute
# threads spin and would starve each other.
if(NOT BMOE_BUILD_TESTS)
    return()
endif()

include(GoogleTest)
add_custom_target(bmoe_unit_tests)
add_custom_target(bmoe_tsan_tests)

function(bmoe_test)
    cmake_parse_arguments(arg "SERIAL" "NAME;TIMEOUT" "SOURCES;LIBS;LABELS;ENV" ${ARGN})
    if(NOT arg_NAME OR NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "bmoe_test(NAME ${arg_NAME}): NAME and SOURCES are required; unknown: ${arg_UNPARSED_ARGUMENTS}")
    endif()
    if(NOT arg_LABELS)
        set(arg_LABELS unit)
    endif()
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 120)
    endif()

    add_executable(${arg_NAME} ${arg_SOURCES})
    target_include_directories(${arg_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
    target_link_libraries(${arg_NAME} PRIVATE ${arg_LIBS} bmoe_warnings GTest::gtest_main)
    # Test cases run once: optimising them, unlike what they test, takes longer than it saves.
    if(BMOE_SANITIZE)
        target_compile_options(${arg_NAME} PRIVATE -O0)
    elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
        target_compile_options(${arg_NAME} PRIVATE -O1)
    endif()
    foreach(label unit tsan)
        if(label IN_LIST arg_LABELS)
            add_dependencies(bmoe_${label}_tests ${arg_NAME})
        endif()
    endforeach()

    gtest_discover_tests(${arg_NAME} NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60
        PROPERTIES TIMEOUT ${arg_TIMEOUT} RUN_SERIAL ${arg_SERIAL})
    # gtest_discover_tests takes lists apart, so the properties that are lists are set in a file that ctest reads after its.
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME}_properties.cmake)
    file(CONFIGURE OUTPUT ${file} @ONLY CONTENT [[
if(@arg_NAME@_TESTS)
    set_tests_properties(${@arg_NAME@_TESTS} PROPERTIES LABELS "@arg_LABELS@" ENVIRONMENT "@arg_ENV@")
endif()
]])
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${file})
endfunction()
