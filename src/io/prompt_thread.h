// A thread that hands reads on must run at once when one has arrived, although compute threads have all processors.
#pragma once

namespace bmoe::io {

// Asks the scheduler to give the calling thread short slices of time, which it then gives it sooner (Linux 6.12 and later, no
// privilege needed). Elsewhere nothing changes.
void prefer_promptness();

}  // namespace bmoe::io
