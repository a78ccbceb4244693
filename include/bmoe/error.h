// The one exception type of bmoe.
#pragma once

#include <stdexcept>

namespace bmoe {

// A sentence for the user that names the file, tensor or flag and what to do.
class Error : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

}  // namespace bmoe
