// Shared by the attention kernels: which pairs are visible, heads with their strides, reductions over a row by some
// threads, and products of small matrices in shared memory. Include common.cuh, reduce.cuh and philox.cuh first.

#include "unrolled.cuh"

__device__ inline whole least(whole a, whole b) { return a < b ? a : b; }
__device__ inline whole most(whole a, whole b) { return a > b ? a : b; }

// The parameters of an AttentionMask (window, stride: 0 if there is none), and the Pattern made from them.
#define PATTERN const bool *visible, whole causal, whole offset, whole window, whole stride
#define PATTERNED(queries, keys) Pattern{visible, causal != 0, offset, window, stride, queries, keys}

struct Pattern {
    const bool *visible;  // (B, S), or null: all keys are visible
    bool causal;
    whole offset, window, stride, queries, keys;

    __device__ bool sees(whole b, whole t, whole j) const {
        if (j < first_key(t) || j >= end_key(t)) return false;
        if (stride > 0) {
            const whole back = t + offset - j;
            const bool near = window > 0 && -window < back && back < window;
            if (!near && back % stride != 0) return false;
        }
        return !visible || visible[b * keys + j];
    }

    // Query t sees only keys first_key(t) … end_key(t) − 1, and key j is seen only by queries first_query(j) …
    // end_query(j) − 1. All four are non-decreasing, so the first and last row of a tile bound all of its rows.
    __device__ bool banded() const { return window > 0 && stride <= 0; }
    __device__ whole first_key(whole t) const { return banded() ? most(0, t + offset - window + 1) : 0; }
    __device__ whole end_key(whole t) const {
        return causal ? least(keys, t + offset + 1) : banded() ? most(0, least(keys, t + offset + window)) : keys;
    }
    __device__ whole first_query(whole j) const {
        return most(0, causal ? j - offset : banded() ? j - offset - window + 1 : 0);
    }
    __device__ whole end_query(whole j) const {
        return banded() ? most(0, least(queries, j - offset + window)) : queries;
    }
};

// The parameters of heads (B, H, ·, D) whose last axis is contiguous, and the rows of one head.
#define HEADS(x) const real *x, whole x##_batch, whole x##_head, whole x##_row
#define HEADS_OUT(x) real *x, whole x##_batch, whole x##_head, whole x##_row
#define ROWS(x, b, h) x + (b) * x##_batch + (h) * x##_head, x##_row

// The entries (row, col) of a matrix, distributed over the threads of a block; adjacent threads get adjacent columns.
struct Walk {
    int rows, cols, row, col, down, right;
    __device__ Walk(int rows, int cols)
        : rows(cols > 0 ? rows : 0), cols(cols > 0 ? cols : 1) {
        row = int(threadIdx.x) / this->cols;
        col = int(threadIdx.x) % this->cols;
        down = int(blockDim.x) / this->cols;
        right = int(blockDim.x) % this->cols;
    }
    __device__ bool here() const { return row < rows; }
    __device__ void next() {
        row += down;
        col += right;
        if (col >= cols) {
            col -= cols;
            ++row;
        }
    }
};

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

// Calls write(i, j, Σ_k a(i, k)·b(k, j)) for i < rows, j < cols, k < inner. Each thread computes M × M sums at a time,
// so that it uses each number that it reads M times. The M rows and columns are apart, so that adjacent threads read
// adjacent numbers.
template <int M, class A, class B, class Write>
__device__ inline void product_by(int rows, int cols, int inner, A a, B b, Write write) {
    const int down = (rows + M - 1) / M, across = (cols + M - 1) / M;
    for (Walk at(down, across); at.here(); at.next()) {
        int row[M], col[M];
        real sum[M][M];
        UNROLLED
        for (int u = 0; u < M; ++u) {
            row[u] = int(least(at.row + u * down, rows - 1));
            col[u] = int(least(at.col + u * across, cols - 1));
            UNROLLED
            for (int v = 0; v < M; ++v) sum[u][v] = 0;
        }
        for (int k = 0; k < inner; ++k) {
            real x[M], y[M];
            UNROLLED
            for (int u = 0; u < M; ++u) {
                x[u] = a(row[u], k);
                y[u] = b(k, col[u]);
            }
            UNROLLED
            for (int u = 0; u < M; ++u) {
                UNROLLED
                for (int v = 0; v < M; ++v) sum[u][v] += x[u] * y[v];
            }
        }
        UNROLLED
        for (int u = 0; u < M; ++u) {
            UNROLLED
            for (int v = 0; v < M; ++v)
                if (at.row + u * down < rows && at.col + v * across < cols) write(row[u], col[v], sum[u][v]);
        }
    }
}

template <class A, class B, class Write>
__device__ inline void product(int rows, int cols, int inner, A a, B b, Write write) {
    if (rows * cols >= 8 * int(blockDim.x)) product_by<4>(rows, cols, inner, a, b, write);
    else product_by<2>(rows, cols, inner, a, b, write);
}
