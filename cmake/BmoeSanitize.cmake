# BMOE_SANITIZE for everything compiled from here on, llama.cpp included: mixing is not safe for threads and hides faults.
if(BMOE_SANITIZE)
    add_compile_options(-fsanitize=${BMOE_SANITIZE} -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${BMOE_SANITIZE})
endif()

string(FIND "${BMOE_SANITIZE}" "address" bmoe_address)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND bmoe_address GREATER -1)
    set(bmoe_fuzz_default ON)
else()
    set(bmoe_fuzz_default OFF)
endif()
option(BMOE_FUZZ "Build the fuzzers of tests/fuzz (needs clang's libFuzzer)" ${bmoe_fuzz_default})

# What only bmoe's own code gets, in folders added after the call: a finding of the undefined behaviour sanitizer ends the
# program.
macro(bmoe_sanitize_own_code)
    if(BMOE_SANITIZE MATCHES "undefined")
        add_compile_options(-fno-sanitize-recover=all)
        # ggml keeps its float kernels behind a pointer type with void arguments, which this check of clang's objects to.
        if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
            add_compile_options(-fno-sanitize=function)
        endif()
    endif()
endmacro()
