# bmoe_version: the header bmoe_version.h, with the version and the commit of llama.cpp.
configure_file(${CMAKE_CURRENT_LIST_DIR}/bmoe_version.h.in ${PROJECT_BINARY_DIR}/generated/bmoe_version.h @ONLY)
add_library(bmoe_version INTERFACE)
target_include_directories(bmoe_version INTERFACE ${PROJECT_BINARY_DIR}/generated)
