#include "bmoe/bmoe.h"
#include "bmoe_version.h"

namespace bmoe {

const char *version() { return kVersion; }
const char *llama_cpp_commit() { return kLlamaCppCommit; }

}  // namespace bmoe
