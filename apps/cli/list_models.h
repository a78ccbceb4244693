// A table of the models in a folder.
#pragma once

#include <string>

namespace bmoe::cli {

// One line on stdout for each GGUF model below `folder`, shards joined; for a file that is no usable model, a line that says
// why. Links to files are followed, those to folders are not. Returns the exit status; throws bmoe::Error if `folder` cannot be
// read.
int list_models(const std::string &folder);

}  // namespace bmoe::cli
