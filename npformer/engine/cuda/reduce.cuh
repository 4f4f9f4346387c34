// Sums and maxima over the threads of a block, in a fixed order, so that two runs give the same bits.
// A block may have any number of threads. All of them must call these functions, and all get the result.
// The lines that a single thread per block never reaches are those inside `if (blockDim.x > 1)`.

template <class Combine>
__device__ inline real over_block(real value, real nothing, Combine combine) {
    if (blockDim.x > 1) {
        __shared__ real of_warp[32];
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
        const unsigned there = lanes_of_this_warp();
        for (int far = 16; far > 0; far /= 2) {
            const real other = __shfl_down_sync(there, value, far);
            if (lane + far < 32 && ((there >> (lane + far)) & 1u)) value = combine(value, other);
        }
        __syncthreads();  // other threads may still read of_warp from the call before
        if (lane == 0) of_warp[warp] = value;
        __syncthreads();
        value = nothing;
        for (int i = 0; i < warps; ++i) value = combine(value, of_warp[i]);
    }
    return value;
}

struct Add {
    __device__ real operator()(real a, real b) const { return a + b; }
};

struct Larger {  // a NaN is the larger, so that it is noticed
    __device__ real operator()(real a, real b) const { return a > b || a != a ? a : b; }
};

__device__ inline real block_sum(real value) { return over_block(value, real(0), Add()); }
__device__ inline real block_max(real value) { return over_block(value, -real(INFINITY), Larger()); }
