// What CUDA gives a kernel, for a C++ compiler. The threads of a block are fibers.h; blocks run one after another.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "fibers.h"
#include "mistakes.h"

using std::abs; using std::erf; using std::exp; using std::fma; using std::fmax; using std::fmin; using std::log;
using std::sqrt; using std::tanh; using std::max; using std::min;
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static __attribute__((section("shared_memory")))

#define __syncthreads() npformer_host::wait_for_block(__LINE__)

inline void __syncwarp(unsigned lanes = ~0u) { npformer_host::wait_for_warp(lanes, 0); }
inline int lane_of_warp() { return int(threadIdx.x % 32); }
template <class T> T __shfl_sync(unsigned lanes, T value, int from) {
    return npformer_host::exchange(lanes, value, from % 32, 1);
}
template <class T> T __shfl_down_sync(unsigned lanes, T value, unsigned far) {
    const int from = lane_of_warp() + int(far);
    return npformer_host::exchange(lanes, value, from < 32 ? from : lane_of_warp(), 2);
}
template <class T> T __shfl_up_sync(unsigned lanes, T value, unsigned far) {
    const int from = lane_of_warp() - int(far);
    return npformer_host::exchange(lanes, value, from >= 0 ? from : lane_of_warp(), 3);
}
template <class T> T __shfl_xor_sync(unsigned lanes, T value, int turned) {
    return npformer_host::exchange(lanes, value, lane_of_warp() ^ turned, 4);
}
inline unsigned __ballot_sync(unsigned lanes, int yes) {
    unsigned votes = 0;
    for (int lane = 0; lane < 32; ++lane)
        if ((lanes >> lane) & 1u) votes |= unsigned(npformer_host::exchange(lanes, int(yes != 0), lane, 5)) << lane;
    return votes;
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __clz(int bits) { return bits ? __builtin_clz(unsigned(bits)) : 32; }
template <class T> T __ldg(const T *at) { return *at; }
inline unsigned __float_as_uint(float x) { unsigned bits; std::memcpy(&bits, &x, 4); return bits; }
inline float __uint_as_float(unsigned bits) { float x; std::memcpy(&x, &bits, 4); return x; }
inline int __float_as_int(float x) { return int(__float_as_uint(x)); }
inline float __int_as_float(int bits) { return __uint_as_float(unsigned(bits)); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) double2 { double x, y; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }

// Calls a kernel for every block of the grid, with arguments given as pointers to them. What went wrong, or null.
template <class... Arguments, size_t... I>
const char *each_block(
    void (*kernel)(Arguments...), unsigned blocks, unsigned threads, int backwards, void **arguments,
    std::index_sequence<I...>
) {
    npformer_host::clear();
    gridDim.x = blocks;
    blockDim.x = threads;
    for (unsigned i = 0; i < blocks && !npformer_host::problem(); ++i) {
        blockIdx.x = backwards ? blocks - 1 - i : i;
        npformer_host::run_block([&] { kernel(*static_cast<Arguments *>(arguments[I])...); }, backwards);
    }
    return npformer_host::problem();
}
template <class... Arguments>
const char *each_block(
    void (*kernel)(Arguments...), unsigned blocks, unsigned threads, int backwards, void **arguments
) {
    return each_block(kernel, blocks, threads, backwards, arguments, std::index_sequence_for<Arguments...>());
}
template <class... Arguments>
int number_of(void (*)(Arguments...)) { return int(sizeof...(Arguments)); }
