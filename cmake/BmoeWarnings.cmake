# bmoe_warnings: the warning flags of bmoe's own code; link to it PRIVATE.
add_library(bmoe_warnings INTERFACE)
target_compile_options(bmoe_warnings INTERFACE -Wall -Wextra -Wpedantic $<$<BOOL:${BMOE_WERROR}>:-Werror>)
