#include "cli/session/output_lines.h"

#include <cmath>

namespace bmoe::cli {

std::string output_line(std::string_view word, const Json &body) {
    std::string line(word);
    line += ' ';
    line += body.dump(-1, ' ', false, Json::error_handler_t::replace);
    line += '\n';
    return line;
}

Json json_id(const std::optional<std::string> &id) { return id ? Json(*id) : Json(); }

Json error_body(const std::optional<std::string> &id, std::string_view code, std::string_view message, bool fatal) {
    return {{"id", json_id(id)}, {"code", code}, {"message", message}, {"fatal", fatal}};
}

Json measured(double value) {
    return std::isfinite(value) && value >= 0 ? Json(std::round(value * 1e6) / 1e6) : Json();
}

void OutputLines::write(std::string_view word, const Json &body) {
    const std::string line = output_line(word, body);
    const std::scoped_lock lock(mutex_);
    output_.write(line);
}

bool OutputLines::failed() const {
    const std::scoped_lock lock(mutex_);
    return output_.failed();
}

int OutputLines::report_failure() const {
    const std::scoped_lock lock(mutex_);
    return output_.report_failure();
}

}  // namespace bmoe::cli
