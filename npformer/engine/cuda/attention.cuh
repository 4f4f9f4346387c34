// Shared by the attention kernels: which pairs are visible, heads with their strides, reductions over a row by some
// threads, and products of small matrices in shared memory. Include common.cuh, reduce.cuh and philox.cuh first.

#include "team.cuh"

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
