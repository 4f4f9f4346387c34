// Included first by every kernel file. `whole` is a 64-bit integer, and `real` is float or double (see source.py).

#ifndef INFINITY
#define INFINITY __longlong_as_double(0x7ff0000000000000LL)
#endif

typedef long long whole;
typedef unsigned long long word;

__device__ inline unsigned lanes_of_this_warp() {  // the last warp of a block may have fewer than 32
    const int first = threadIdx.x / 32 * 32, rest = int(blockDim.x) - first;
    return rest >= 32 ? 0xffffffffu : (1u << rest) - 1u;
}

// The first element, and the step, of a thread in a loop that all threads of all blocks share.
__device__ inline whole first_of_all() { return whole(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline whole step_of_all() { return whole(gridDim.x) * blockDim.x; }
