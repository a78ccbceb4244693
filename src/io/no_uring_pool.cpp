// In place of uring_pool.cpp where there is no liburing, or no use in it.
#include "base/error.h"
#include "io/pool_impl.h"

namespace bmoe::io {

std::unique_ptr<ReadPool::Impl> make_uring_pool(int lanes) {
    (void)lanes;
    throw Error("io_uring: this program was built without it");
}

}  // namespace bmoe::io
