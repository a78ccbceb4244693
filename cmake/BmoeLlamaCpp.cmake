# llama.cpp as static libraries, built only as far as a target that is built needs them.
#
#   llama, ggml, ggml-base, ggml-cpu   as llama.cpp defines them
#   llama-common                       its chat templates and helpers, without the command line
#   bmoe_ggml_internal                 the header folder of ggml's backend interface (ggml-backend-impl.h and others)
#
#   BMOE_LLAMA_CPP_SOURCE_DIR, BMOE_LLAMA_CPP_COMMIT ("unknown" outside git)

set(bmoe_fetch ${PROJECT_SOURCE_DIR}/scripts/fetch-llama-cpp.sh)

if(BMOE_LLAMA_CPP_DIR)
    set(BMOE_LLAMA_CPP_SOURCE_DIR ${BMOE_LLAMA_CPP_DIR})
    foreach(file CMakeLists.txt include/llama.h ggml/CMakeLists.txt)
        if(NOT EXISTS ${BMOE_LLAMA_CPP_SOURCE_DIR}/${file})
            message(FATAL_ERROR "BMOE_LLAMA_CPP_DIR=${BMOE_LLAMA_CPP_DIR} is not a llama.cpp checkout: it has no ${file}. "
                                "Name one that is, or pass -DBMOE_LLAMA_CPP_DIR= to use the one that bmoe fetches.")
        endif()
    endforeach()
else()
    execute_process(
        COMMAND ${bmoe_fetch} --check
        RESULT_VARIABLE bmoe_result
        OUTPUT_VARIABLE BMOE_LLAMA_CPP_SOURCE_DIR
        ERROR_VARIABLE bmoe_error
        OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
    if(NOT bmoe_result EQUAL 0)
        message(FATAL_ERROR "${bmoe_error}")
    endif()
endif()

execute_process(
    COMMAND git -c safe.directory=* rev-parse HEAD
    WORKING_DIRECTORY ${BMOE_LLAMA_CPP_SOURCE_DIR}
    RESULT_VARIABLE bmoe_result
    OUTPUT_VARIABLE BMOE_LLAMA_CPP_COMMIT
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT bmoe_result EQUAL 0)
    set(BMOE_LLAMA_CPP_COMMIT "unknown")
endif()

# A function, so that the settings stay with llama.cpp.
function(bmoe_add_llama_cpp)
    set(BUILD_SHARED_LIBS OFF)
    set(GGML_NATIVE ${BMOE_NATIVE})
    set(GGML_OPENMP OFF)  # one ggml_threadpool is shared instead
    set(LLAMA_OPENSSL OFF)
    set(LLAMA_BUILD_COMMON ON)
    foreach(part TESTS EXAMPLES TOOLS SERVER APP)
        set(LLAMA_BUILD_${part} OFF)
    endforeach()
    set(LLAMA_ALL_WARNINGS OFF)
    string(SUBSTRING "${BMOE_LLAMA_CPP_COMMIT}" 0 8 LLAMA_BUILD_COMMIT)

    # Unoptimised kernels would make every test that runs a model slow. Under the sanitizers none does.
    if(BMOE_SANITIZE)
        set(CMAKE_C_FLAGS_DEBUG "-O1 -g1")
        set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")
        set(GGML_LLAMAFILE OFF)
    else()
        set(CMAKE_C_FLAGS_DEBUG "-O2 -g1")
        set(CMAKE_CXX_FLAGS_DEBUG "-O2 -g1")
    endif()
    add_subdirectory(${BMOE_LLAMA_CPP_SOURCE_DIR} ${PROJECT_BINARY_DIR}/llama.cpp EXCLUDE_FROM_ALL SYSTEM)
endfunction()

bmoe_add_llama_cpp()

foreach(target llama ggml ggml-base ggml-cpu llama-common)
    if(NOT TARGET ${target})
        message(FATAL_ERROR "llama.cpp in ${BMOE_LLAMA_CPP_SOURCE_DIR} (${BMOE_LLAMA_CPP_COMMIT}) has no CMake target "
                            "'${target}': that revision is too old or too new. Pass -DBMOE_LLAMA_CPP_DIR= to use the one "
                            "that bmoe fetches.")
    endif()
endforeach()

include(BmoeTrimLlamaCpp)

add_library(bmoe_ggml_internal INTERFACE)
target_include_directories(bmoe_ggml_internal SYSTEM INTERFACE ${BMOE_LLAMA_CPP_SOURCE_DIR}/ggml/src)
target_link_libraries(bmoe_ggml_internal INTERFACE ggml)
