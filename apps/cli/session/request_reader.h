// Takes the requests of a session from stdin, in a thread of its own: a cancel then arrives at any time.
#pragma once

#include <optional>
#include <string>
#include <thread>

#include "cli/session/inbox.h"
#include "cli/session/line_reader.h"
#include "cli/session/output_lines.h"
#include "cli/session/request.h"

namespace bmoe::cli {

// Refuses, in `output`, what cannot be done, and hands the rest to `inbox`, which it ends when stdin ends, a request says so,
// nobody reads stdout any more, or `wake` was woken.
class RequestReader {
  public:
    // Starts reading. All must outlive it.
    RequestReader(Inbox &inbox, OutputLines &output, WakeEvent &wake);
    ~RequestReader() { stop(); }
    RequestReader(const RequestReader &) = delete;
    RequestReader &operator=(const RequestReader &) = delete;

    void stop();  // waits for the thread

    // Of the request that closed the session. After stop().
    const std::optional<std::string> &close_id() const { return close_id_; }

  private:
    void run();
    bool take_line();
    template <typename Wanted>
    bool take(Wanted &request);
    bool take(CancelRequest &request);
    bool take(CloseRequest &request);
    bool take(BadRequest &request);

    Inbox &inbox_;
    OutputLines &output_;
    WakeEvent &wake_;
    LineReader lines_;
    std::optional<std::string> close_id_;
    std::thread thread_;
};

}  // namespace bmoe::cli
