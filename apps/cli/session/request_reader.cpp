#include "cli/session/request_reader.h"

#include <unistd.h>

#include <exception>
#include <utility>
#include <variant>

#include "base/error.h"

namespace bmoe::cli {

namespace {

constexpr size_t kMostLineBytes = size_t{64} << 20;

}  // namespace

RequestReader::RequestReader(Inbox &inbox, OutputLines &output, WakeEvent &wake)
    : inbox_(inbox), output_(output), wake_(wake), lines_(STDIN_FILENO, wake, kMostLineBytes), thread_([this] {
          run();
      }) {}

void RequestReader::stop() {
    if (thread_.joinable()) {
        wake_.wake();
        thread_.join();
    }
}

void RequestReader::run() {
    try {
        while (take_line() && !output_.failed()) {
        }
    } catch (const std::exception &failure) {
        output_.fatal("input", failure.what());
        inbox_.end(Ending::kInputFailed);
    }
    inbox_.end(Ending::kInterrupted);
}

// False when nothing more is to be read.
bool RequestReader::take_line() {
    std::string line;
    switch (lines_.next(line)) {
        case LineReader::Got::kWoken:
            return false;
        case LineReader::Got::kEnd:
            inbox_.end(Ending::kEndOfInput);
            return false;
        case LineReader::Got::kTooLong:
            output_.error({}, "bad_request", cat("a line has more than ", kMostLineBytes, " bytes"));
            return true;
        case LineReader::Got::kLine:
            break;
    }
    if (line.find_first_not_of(" \t") == std::string::npos) {
        return true;
    }
    Request request = parse_request(line);
    return std::visit([&](auto &wanted) { return take(wanted); }, request);
}

template <typename Wanted>
bool RequestReader::take(Wanted &request) {
    const std::optional<std::string> id = request.id;
    if (!inbox_.start(std::move(request))) {
        output_.error(id, "busy", "another request is under way; wait for its BMOE_DONE or BMOE_ERROR, or cancel it");
    }
    return true;
}

bool RequestReader::take(CancelRequest &request) {
    if (!inbox_.cancel(request.id)) {
        output_.error(request.id, "not_running", "cancel: no such request is under way");
    }
    return true;
}

bool RequestReader::take(CloseRequest &request) {
    close_id_ = request.id;
    inbox_.end(Ending::kClosed);
    return false;
}

bool RequestReader::take(BadRequest &request) {
    output_.error(request.id, "bad_request", request.message);
    return true;
}

}  // namespace bmoe::cli
