# Takes time out of compiling llama.cpp, without a change to it or to the flags that its results depend on.

# Left out: the command line, console and downloads of llama.cpp's own programs, and with them its HTTP library.
function(bmoe_trim_llama_common)
    get_target_property(sources llama-common SOURCES)
    foreach(name arg console debug download hf-cache imatrix-loader llguidance preset subproc)
        list(REMOVE_ITEM sources ${name}.cpp)
    endforeach()
    set_property(TARGET llama-common PROPERTY SOURCES ${sources})

    foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
        get_target_property(libraries llama-common ${property})
        list(FILTER libraries EXCLUDE REGEX "cpp-httplib")
        set_property(TARGET llama-common PROPERTY ${property} ${libraries})
    endforeach()
endfunction()

# The graphs of the models are many small files behind large headers: a dozen together take as long as three alone. The
# larger files gain little and stay as they are.
function(bmoe_join_llama_models)
    set(folder ${BMOE_LLAMA_CPP_SOURCE_DIR}/src)
    get_target_property(sources llama SOURCES)
    list(FILTER sources EXCLUDE REGEX "/models/")
    list(TRANSFORM sources PREPEND ${folder}/)
    list(APPEND sources ${folder}/models/gemma4.cpp)  # has a function of gemma3n.cpp's name
    set_property(SOURCE ${sources} TARGET_DIRECTORY llama PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
    set_target_properties(llama PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
endfunction()

# In another revision more names may clash, and more of the files may be needed.
if(NOT BMOE_LLAMA_CPP_DIR)
    bmoe_trim_llama_common()
    bmoe_join_llama_models()
endif()

# bmoe's tests are not there to find llama.cpp's undefined behaviour, and checks for it are a third of the time that its files
# take. The other sanitizers need all code to take part.
if(BMOE_SANITIZE MATCHES "undefined")
    foreach(target llama ggml ggml-base ggml-cpu llama-common)
        target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
    endforeach()
endif()
