// The threads of one block, as fibers: one runs until it must wait, then the next; a warp
// goes as far as it comes without the others. Barriers and exchanges between the
// lanes of a warp mean what they mean on a GPU, and what is undefined there is an error here: a barrier that not every
// thread reaches, an exchange with a lane that is absent, shared memory read before it was written (it begins as NaN).
// Nothing is in step by itself, so a missing barrier is seen: in one order of the threads, or in the other.
#include <csetjmp>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sys/mman.h>
#include <ucontext.h>

struct Three { unsigned x = 1, y = 1, z = 1; };
static Three threadIdx{0, 0, 0}, blockIdx{0, 0, 0}, blockDim, gridDim;

extern "C" __attribute__((weak, visibility("hidden"))) char __start_shared_memory[], __stop_shared_memory[];

namespace npformer_host {

enum Wait { ready, for_block, for_warp, ended };
struct Fiber {
    Wait wait;
    bool begun;
    unsigned lanes;  // of the exchange that it waits for
    int what;        // the line of the barrier, or the kind of the exchange
    unsigned long long said;
    jmp_buf left;
    ucontext_t start;
};
enum { most = 1024, stack = 256 * 1024 };
static Fiber fibers[most];
static char *stacks = nullptr;
static jmp_buf scheduler;
static std::function<void()> *body;
static char trouble[300];

inline const char *problem() { return trouble[0] ? trouble : nullptr; }
inline void clear() { trouble[0] = 0; }

__attribute__((format(printf, 1, 2))) inline void complain(const char *text, ...) {
    if (trouble[0]) return;  // the first is the one to mend
    va_list values;
    va_start(values, text);
    const int length = snprintf(trouble, sizeof trouble, "block %u, thread %u: ", blockIdx.x, threadIdx.x);
    vsnprintf(trouble + length, sizeof trouble - size_t(length), text, values);
    va_end(values);
}

__attribute__((noinline)) static void wait(Wait how, unsigned lanes, int what) {
    Fiber &me = fibers[threadIdx.x];
    me.wait = how;
    me.lanes = lanes;
    me.what = what;
    if (!_setjmp(me.left)) _longjmp(scheduler, 1);
}

inline void wait_for_block(int line) {
    if (blockDim.x > 1) wait(for_block, 0, line);
}

inline void wait_for_warp(unsigned lanes, int kind) {
    if (!((lanes >> threadIdx.x % 32) & 1u)) complain("an exchange that leaves out the lane that calls it");
    if (blockDim.x > 1) wait(for_warp, lanes, kind);
}

// A lane of this warp, or null if the block has no such thread.
inline Fiber *lane_of_this_warp(unsigned thread, int lane) {
    const unsigned other = thread / 32 * 32 + unsigned(lane);
    return lane >= 0 && lane < 32 && other < blockDim.x ? &fibers[other] : nullptr;
}

// What lane `from` of this warp says. That of an absent lane is undefined: all bits are set, in a real number NaN.
template <class T> T exchange(unsigned lanes, T value, int from, int kind) {
    static_assert(sizeof(T) <= 8, "no more than 64 bits at once");
    std::memcpy(&fibers[threadIdx.x].said, &value, sizeof value);
    wait_for_warp(lanes, kind);
    const Fiber *const other = lane_of_this_warp(threadIdx.x, from);
    const bool spoke = other && ((lanes >> from) & 1u) && other->wait != ended;
    T heard;
    if (spoke) std::memcpy(&heard, &other->said, sizeof heard);
    else std::memset(&heard, 0xff, sizeof heard);
    wait_for_warp(lanes, -kind);  // what was said must not change before all have heard it
    return heard;
}

static void live() {
    (*body)();
    fibers[threadIdx.x].wait = ended;
    _longjmp(scheduler, 1);
}

static void resume(unsigned thread) {
    Fiber &fiber = fibers[threadIdx.x = thread];
    if (_setjmp(scheduler)) return;
    if (fiber.begun) _longjmp(fiber.left, 1);
    fiber.begun = true;
    setcontext(&fiber.start);
}

// Whether every lane that this thread's exchange names has come to it; those that ended need not.
inline bool complete(unsigned thread) {
    const Fiber &me = fibers[thread];
    for (int lane = 0; lane < 32; ++lane) {
        const Fiber *const other = (me.lanes >> lane) & 1u ? lane_of_this_warp(thread, lane) : nullptr;
        if (other && other->wait != ended && (other->wait != for_warp || other->lanes != me.lanes || other->what != me.what))
            return false;
    }
    return true;
}

// Lets the lanes of a warp go on whose exchange is complete. Whether there were any.
inline bool release_warp(unsigned first, unsigned last) {
    bool any = false, over[32];
    for (unsigned i = first; i < last; ++i) over[i - first] = fibers[i].wait == for_warp && complete(i);
    for (unsigned i = first; i < last; ++i)
        if (over[i - first]) {
            fibers[i].wait = ready;
            any = true;
        }
    return any;
}

// Lets all threads go on if they wait at one barrier. Whether they did.
inline bool release_block() {
    for (unsigned i = 0; i < blockDim.x; ++i)
        if (fibers[i].wait != for_block || fibers[i].what != fibers[0].what) return false;
    for (unsigned i = 0; i < blockDim.x; ++i) fibers[i].wait = ready;
    return true;
}

// Runs a warp as far as it comes without the others.
inline void run_warp(unsigned warp, int backwards) {
    const unsigned first = warp * 32, last = first + 32 < blockDim.x ? first + 32 : blockDim.x;
    do {
        for (unsigned i = first; i < last && !problem(); ++i) {
            const unsigned thread = backwards ? last - 1 - (i - first) : i;
            if (fibers[thread].wait == ready) resume(thread);
        }
    } while (!problem() && release_warp(first, last));
}

inline void run_block(std::function<void()> kernel, int backwards) {
    if (__start_shared_memory)
        std::memset(__start_shared_memory, 0xff, size_t(__stop_shared_memory - __start_shared_memory));
    threadIdx.x = 0;
    if (blockDim.x == 1) return kernel();
    body = &kernel;
    if (!stacks) {
        void *room =
            mmap(nullptr, size_t(most) * stack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (room == MAP_FAILED) {
            std::perror("no room for the stacks of a block's threads");
            std::abort();
        }
        stacks = static_cast<char *>(room);
    }
    for (unsigned i = 0; i < blockDim.x; ++i) {
        fibers[i].wait = ready;
        fibers[i].begun = false;
        getcontext(&fibers[i].start);
        fibers[i].start.uc_stack.ss_sp = stacks + size_t(i) * stack;
        fibers[i].start.uc_stack.ss_size = stack;
        makecontext(&fibers[i].start, live, 0);
    }
    const unsigned warps = (blockDim.x + 31) / 32;
    do {
        for (unsigned i = 0; i < warps && !problem(); ++i) run_warp(backwards ? warps - 1 - i : i, backwards);
    } while (!problem() && release_block());
    for (unsigned i = 0; i < blockDim.x; ++i)
        if (fibers[threadIdx.x = i].wait != ended)
            complain(fibers[i].wait == for_block ? "waits for ever at the barrier of line %d" : "waits for ever for other lanes (%d)", fibers[i].what);
}

}  // namespace npformer_host
