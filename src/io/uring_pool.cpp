// The engine of an io_uring: one thread keeps several reads in flight.
//
// Descriptors are not registered with the ring: a read of an expert takes hundreds of microseconds, looking up its file a tenth
// of one, and a registered file would stay open behind the back of its owner.
#include <liburing.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <future>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"
#include "io/descriptor_limit.h"
#include "io/guarded_read.h"
#include "io/pool_impl.h"
#include "io/prompt_thread.h"

namespace bmoe::io {
namespace {

constexpr uint64_t kMaxCall = uint64_t{1} << 30;  // bytes; the ring takes 32 bits
constexpr std::chrono::milliseconds kRetry{1};

std::string errno_text(int code) { return std::system_category().message(code); }

[[noreturn]] void throw_refusal(int error) {
    if (const std::string limit = descriptor_limit(error); !limit.empty()) {
        throw Error(cat("io_uring: no file descriptor is left for it (", errno_text(error), limit, ")"));
    }
    throw Error(cat("io_uring: the system refuses it (", errno_text(error),
                    "): too old a kernel, kernel.io_uring_disabled, or a sandbox"));
}

class EventFd {
  public:
    EventFd() : fd_(::eventfd(0, EFD_CLOEXEC)) {
        if (fd_ < 0) throw_refusal(errno);
    }
    ~EventFd() { ::close(fd_); }
    EventFd(const EventFd &) = delete;
    EventFd &operator=(const EventFd &) = delete;

    int get() const { return fd_; }
    void signal() const {
        const uint64_t one = 1;
        while (::write(fd_, &one, sizeof one) < 0 && errno == EINTR) {
        }
    }

  private:
    int fd_;
};

// Belongs to the thread that calls enable(), apart from its construction and destruction.
class Ring {
  public:
    explicit Ring(unsigned entries) {
        // Completions are then handled in wait() instead of interrupting the thread. Kernels before 6.1 refuse it.
        int error = init(entries, IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
        if (error == EINVAL) error = init(entries, IORING_SETUP_R_DISABLED);
        if (error != 0) throw_refusal(error);
    }
    ~Ring() { ::io_uring_queue_exit(&ring_); }
    Ring(const Ring &) = delete;
    Ring &operator=(const Ring &) = delete;

    // By system call: liburing before 2.4 does not export its function for this. 0 or an error number.
    int enable() {
        const long result = ::syscall(__NR_io_uring_register, ring_.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
        return result < 0 ? errno : 0;
    }

    // Gives the kernel what is queued, for the first time. 0 or an error number.
    int try_submit() {
        int result = 0;
        while ((result = ::io_uring_submit(&ring_)) == -EINTR) {
        }
        return result < 0 ? -result : 0;
    }

    void queue_read(const ReadCall &call, void *user) {
        io_uring_sqe *sqe = ::io_uring_get_sqe(&ring_);
        ::io_uring_prep_read(sqe, call.fd, call.dst, static_cast<unsigned>(std::min(call.length, kMaxCall)),
                             call.offset);
        ::io_uring_sqe_set_data(sqe, user);
    }

    // Gives the kernel what is queued, and waits until `completions` are there.
    void submit(unsigned completions) {
        // Interrupted, or short of memory for the moment; what is queued stays so. Anything else would be a mistake here.
        for (int result = 0; (result = ::io_uring_submit_and_wait(&ring_, completions)) < 0;) {
            if (result != -EINTR) std::this_thread::sleep_for(kRetry);
        }
    }

    // Takes one completion. False if there is none.
    bool take(void *&user, int &result) {
        io_uring_cqe *cqe = nullptr;
        if (::io_uring_peek_cqe(&ring_, &cqe) != 0) return false;
        user = ::io_uring_cqe_get_data(cqe);
        result = cqe->res;
        ::io_uring_cqe_seen(&ring_, cqe);
        return true;
    }

  private:
    // 0 or an error number.
    int init(unsigned entries, unsigned flags) {
        io_uring_params params = {};
        params.flags = flags;
        return -::io_uring_queue_init_params(entries, &ring_, &params);
    }

    io_uring ring_ = {};
};

class UringPool final : public ReadPool::Impl {
  public:
    explicit UringPool(int lanes)
        : Impl(lanes, ReadEngine::kUring),
          ring_(static_cast<unsigned>(lanes) + 1),
          flights_(static_cast<size_t>(lanes)) {
        for (Flight &flight : flights_) free_.push_back(&flight);
        std::promise<int> started;
        std::future<int> outcome = started.get_future();
        try {
            thread_ = std::thread([this, &started] { run(started); });
        } catch (const std::system_error &error) {
            throw Error(cat("io_uring: cannot start its thread (", error.code().message(), ")"));
        }
        // A sandbox may allow the ring to be made and not to be used.
        if (const int error = outcome.get(); error != 0) {
            thread_.join();
            throw_refusal(error);
        }
    }
    ~UringPool() override {
        {
            const Lock lock(mutex_);
            stopping_ = true;
        }
        wake_.signal();
        thread_.join();
    }

  private:
    // A read that the kernel has, or will have with the next submit.
    struct Flight {
        Taken taken;
        ReadSteps steps;
    };

    void wake(Lock &lock, size_t jobs) override {
        const bool must_wake = awaits_jobs_ && jobs > 0;
        if (must_wake) awaits_jobs_ = false;
        lock.unlock();
        if (must_wake) wake_.signal();
    }

    void run(std::promise<int> &started) {
        int error = ring_.enable();
        if (error == 0) {
            queue_wake();
            error = ring_.try_submit();
        }
        started.set_value(error);
        if (error != 0) return;
        prefer_promptness();
        Lock lock(mutex_);
        for (;;) {
            while (has_work() && !free_.empty()) start(lock, take());
            const bool is_idle = free_.size() == flights_.size();
            if (is_idle && stopping_) return;
            awaits_jobs_ = !free_.empty();
            lock.unlock();
            wait();
            lock.lock();
            awaits_jobs_ = false;
            handle_completions(lock);
        }
    }

    void queue_wake() {
        ring_.queue_read({wake_.get(), 0, sizeof wake_count_, reinterpret_cast<std::byte *>(&wake_count_)}, nullptr);
        wake_is_queued_ = true;
    }

    void wait() {
        if (!wake_is_queued_) queue_wake();
        ring_.submit(1);
    }

    // The following are called with the mutex held and return with it held.

    void start(Lock &lock, const Taken &taken) {
        const ReadJob &job = *taken.job;
        if (stopping_) return finish(lock, taken, refusal(job));
        begin_read();
        lock.unlock();
        Flight &flight = *free_.back();
        flight.taken = taken;
        flight.steps = {job.offset, job.length, job.dst, {}, {}};
        ReadStatus status;
        if (!guarded_start(*job.file, flight.steps)) {
            ring_.submit(0);  // what is queued need not wait for this read
            status = guarded_read(*job.file, job.offset, job.length, job.dst);
        } else if (!flight.steps.ended()) {
            free_.pop_back();
            ring_.queue_read(flight.steps.call, &flight);
            lock.lock();
            return;
        } else {
            status = outcome(*job.file, flight.steps);
        }
        lock.lock();
        end_read(taken, status);
        finish(lock, taken, status);
    }

    void handle_completions(Lock &lock) {
        void *user = nullptr;
        for (int result = 0; ring_.take(user, result);) {
            if (user == nullptr) {
                wake_is_queued_ = false;
            } else {
                advance(lock, *static_cast<Flight *>(user), result);
            }
        }
    }

    void advance(Lock &lock, Flight &flight, int64_t result) {
        lock.unlock();
        const Taken taken = flight.taken;
        const RandomAccessFile &file = *taken.job->file;
        const ReadCall &call = flight.steps.call;
        // Some devices cannot be asked without waiting, and some kernels then say so instead of waiting.
        if (result == -EAGAIN) {
            result = ::pread(call.fd, call.dst, call.length, static_cast<off_t>(call.offset));
            if (result < 0) result = -errno;
        }
        guarded_advance(file, flight.steps, result);
        if (!flight.steps.ended()) {
            ring_.queue_read(call, &flight);
            lock.lock();
            return;
        }
        const ReadStatus status = outcome(file, flight.steps);
        free_.push_back(&flight);
        lock.lock();
        end_read(taken, status);
        finish(lock, taken, status);
    }

    bool awaits_jobs_ = false;  // the thread waits and could start a job; guarded by the mutex

    // The thread's own.
    EventFd wake_;
    Ring ring_;
    uint64_t wake_count_ = 0;  // the kernel writes it
    bool wake_is_queued_ = false;
    std::vector<Flight> flights_;
    std::vector<Flight *> free_;

    std::thread thread_;
};

}  // namespace

std::unique_ptr<ReadPool::Impl> make_uring_pool(int lanes) { return std::make_unique<UringPool>(lanes); }

}  // namespace bmoe::io
