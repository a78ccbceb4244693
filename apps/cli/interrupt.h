// Ctrl-C, a polite kill and a terminal that closes: the generation ends, the program says what it has done and ends by convention.
#pragma once

#include <optional>

#include "cli/ending_signals.h"
#include "engine/engine.h"

namespace bmoe::cli {

// While it lives, SIGINT, SIGTERM and SIGHUP cancel what `engine` does, and a second one ends the program: see Second. SIGHUP
// stays ignored where it was. SIGPIPE is ignored: the write fails instead. One at a time.
class InterruptScope {
  public:
    enum class Second {
        kEndsProgram,  // at once
        kIsTaken,      // again() says so; a third one ends the program at once
    };

    // They also write to `event`, an eventfd, if it is not -1.
    explicit InterruptScope(engine::Engine &engine, int event = -1, Second second = Second::kEndsProgram);
    ~InterruptScope();
    InterruptScope(const InterruptScope &) = delete;
    InterruptScope &operator=(const InterruptScope &) = delete;

    bool interrupted() const;
    bool again() const;       // more than once
    int exit_status() const;  // by convention, of a program that a signal ended; 0 without one

    // From here on little is left to do, and a file that is being written should not be left half done: they are ignored until
    // the program ends.
    void ignore_from_now_on();

  private:
    std::optional<EndingSignals> signals_;
};

}  // namespace bmoe::cli
