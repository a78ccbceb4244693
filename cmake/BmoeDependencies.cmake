# All external packages, found here so that their imported targets are visible in every folder.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
pkg_check_modules(LIBURING QUIET IMPORTED_TARGET liburing)
pkg_check_modules(LIBEDIT QUIET IMPORTED_TARGET libedit)

# Optional: a target that is absent leaves out what needs it.
find_package(benchmark QUIET)
if(BMOE_BUILD_TESTS)
    find_package(GTest REQUIRED)
    pkg_check_modules(FUSE3 QUIET IMPORTED_TARGET fuse3)
endif()
