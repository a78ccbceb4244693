#include "cli/flags/checks.h"

#include <string>

#include "base/error.h"

namespace bmoe::cli {

CLI::Validator number_from(double low, double high) {
    const std::string range = cat("FLOAT in [", low, " - ", high, "]");
    return {[=](std::string &text) {
                double value = 0;
                const bool is_within = CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
                return is_within ? std::string() : cat("Value ", text, " not in range ", low, " to ", high);
            },
            range};
}

CLI::Validator file_name() {
    return {[](std::string &text) { return text.empty() ? std::string("the name of the file is empty") : ""; }, ""};
}

}  // namespace bmoe::cli
