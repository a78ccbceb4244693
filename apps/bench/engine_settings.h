// The settings that a cell can give the engine, by name.
#pragma once

#include <string>

#include "engine/options.h"

namespace bmoe::bench {

// Sets what `name` stands for; `options.model` must be set before. Throws bmoe::Error for an unknown name or value.
void apply_setting(const std::string &name, const std::string &value, engine::Options &options);

}  // namespace bmoe::bench
