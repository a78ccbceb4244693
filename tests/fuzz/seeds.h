// The inputs that mutation starts from, made by the program itself.
#pragma once

#include <cstddef>
#include <vector>

namespace bmoe::fuzz {

std::vector<std::vector<std::byte>> seeds();

}  // namespace bmoe::fuzz
