// Softmax over the visible entries of each row.
//
//     y_j = exp(x_j − top)/Σ_k exp(x_k − top)      top = max_k x_k      dx_j = y_j·(dy_j − Σ_k dy_k y_k)
//
// A hidden entry has weight 0, and so has every entry of a row without visible entries.

#include "common.cuh"
#include "reduce.cuh"

// One block for each row. visible may be null: every entry is visible.
extern "C" __global__ void softmax_rows(
    const real *__restrict__ x, const bool *__restrict__ visible, real *__restrict__ y, whole width
) {
    const whole at = blockIdx.x * width;
    real top = -real(INFINITY), sum = 0;
    for (whole j = threadIdx.x; j < width; j += blockDim.x)
        if (!visible || visible[at + j]) top = Larger()(x[at + j], top);
    top = block_max(top);
    if (!(top - top == real(0))) top = 0;  // no visible entry: −∞ − −∞ is NaN
    for (whole j = threadIdx.x; j < width; j += blockDim.x) {
        const real power = !visible || visible[at + j] ? exp(x[at + j] - top) : real(0);
        y[at + j] = power;
        sum += power;
    }
    sum = block_sum(sum);
    if (sum == real(0)) sum = 1;
    for (whole j = threadIdx.x; j < width; j += blockDim.x) y[at + j] /= sum;
}

extern "C" __global__ void softmax_rows_backward(
    const real *__restrict__ dy, const real *__restrict__ y, real *__restrict__ dx, whole width
) {
    const whole at = blockIdx.x * width;
    real shared = 0;
    for (whole j = threadIdx.x; j < width; j += blockDim.x) shared += dy[at + j] * y[at + j];
    shared = block_sum(shared);
    for (whole j = threadIdx.x; j < width; j += blockDim.x) dx[at + j] = y[at + j] * (dy[at + j] - shared);
}
