// Some threads that compute a row together. Include common.cuh and reduce.cuh first.

#include "unrolled.cuh"

// Kernels with a row in the registers of a warp: the lanes of every warp of the block, and of the smallest. For a GPU
// the first is a constant, so that addresses need no registers, and a block with a warp that is not whole has none.
#ifdef __CUDACC__
#define LANES(team) 32
__device__ inline int lanes_for_registers() { return blockDim.x % 32 ? 0 : 32; }
#else
#define LANES(team) (team).size
inline int lanes_for_registers() { return blockDim.x % 32 ? int(blockDim.x % 32) : 32; }
#endif

// The threads that compute a row together: `lanes` adjacent lanes of a warp (a power of 2), or, if it is 0, the block.
struct Team {
    int lanes, rank, size, team, teams;
    __device__ explicit Team(int lanes) : lanes(lanes) {
        const int first = lanes ? int(threadIdx.x) / lanes * lanes : 0, rest = int(blockDim.x) - first;
        rank = int(threadIdx.x) - first;
        size = lanes && lanes < rest ? lanes : rest;
        team = lanes ? int(threadIdx.x) / lanes : 0;
        teams = lanes ? (int(blockDim.x) + lanes - 1) / lanes : 1;
    }
    __device__ real sum(real value) const { return lanes ? over_lanes(value, Add()) : block_sum(value); }
    __device__ real largest(real value) const { return lanes ? over_lanes(value, Larger()) : block_max(value); }

    // A barrier: afterwards a thread of the team may overwrite what another has read.
    __device__ void sync() const {
        if (!lanes) __syncthreads();
        else if (blockDim.x > 1) __syncwarp(mask());
    }

    __device__ unsigned mask() const {  // the team's lanes in the mask of its warp
        return (size == 32 ? 0xffffffffu : (1u << size) - 1u) << ((threadIdx.x - rank) % 32);
    }

    // The lines that a single thread per block never reaches are those inside `if (blockDim.x > 1)`.
    template <class Combine>
    __device__ real over_lanes(real value, Combine combine) const {
        if (blockDim.x > 1) {
            for (int far = lanes / 2; far > 0; far /= 2) {
                const real other = __shfl_down_sync(mask(), value, far);
                if (rank + far < size) value = combine(value, other);
            }
            value = __shfl_sync(mask(), value, (threadIdx.x - rank) % 32);
        }
        return value;
    }
};
