// LayerNorm over rows of C numbers, alone or after a residual sum.
//
//     total = x + Drop(f)      x̂ = (total − μ)·r      y = γ·x̂ + β
//     dx = r·(g − mean g − x̂·mean(g·x̂)) + dsum    with g = γ·dy, dsum the gradient of total      df = Drop(dx)
//
// x̂ and r are kept, as in functional/layer_norm.py; dropout's bits are drawn again in backward. A row that fits stays
// in shared memory between the passes over it, so that each array is read or written once.

#include "common.cuh"
#include "reduce.cuh"
#include "philox.cuh"

// One block for each row. f may be null: there is no sum. total may be null: it is not written.
extern "C" __global__ void norm_rows(
    const real *__restrict__ x, const real *__restrict__ f, const real *__restrict__ gamma, const real *__restrict__ beta,
    real *__restrict__ total, real *__restrict__ y, real *__restrict__ x_hat, real *r, whole width, double eps, DRAW
) {
    enum { room = 2048 };
    __shared__ real nearby[room];
    const whole at = whole(blockIdx.x) * width;
    real *const row = width <= room ? nearby : x_hat + at;
    const Draw draw = DRAWN;
    Factors factors;
    real sum = 0;
    for (whole base = 0; base < width; base += Factors::room) {
        const whole end = base + Factors::room < width ? base + Factors::room : width;
        if (f) factors.draw(draw, at + base, end - base);
        for (whole j = base + threadIdx.x; j < end; j += blockDim.x) {
            const real value = f ? x[at + j] + factors.apply(f[at + j], at + j) : x[at + j];
            if (total) total[at + j] = value;
            row[j] = value;
            sum += value;
        }
    }
    const real mean = block_sum(sum) / real(width);
    real square = 0;
    for (whole j = threadIdx.x; j < width; j += blockDim.x) {
        const real centred = row[j] - mean;
        row[j] = centred;
        square += centred * centred;
    }
    const real inverse = real(1) / sqrt(block_sum(square) / real(width) + real(eps));
    for (whole j = threadIdx.x; j < width; j += blockDim.x) {
        const real value = row[j] * inverse;
        x_hat[at + j] = value;
        y[at + j] = gamma[j] * value + beta[j];
    }
    if (threadIdx.x == 0) r[blockIdx.x] = inverse;
}

// Each block computes every gridDim-th row, and writes its part of dγ and dβ to partials (gridDim, 2, C); sums.cu adds
// the parts. dsum may be null. df may be null: without dropout, or without a sum.
extern "C" __global__ void norm_rows_backward(
    const real *__restrict__ dy, const real *__restrict__ x_hat, const real *__restrict__ r,
    const real *__restrict__ gamma, const real *__restrict__ dsum, real *__restrict__ dx, real *__restrict__ df,
    real *__restrict__ partials, whole rows, whole width, DRAW
) {
    enum { room = 1024 };
    __shared__ real nearby[2 * room];
    real *const kept = partials + whole(blockIdx.x) * 2 * width;
    real *const dgamma = width <= room ? nearby : kept, *const dbeta = dgamma + width;
    for (whole j = threadIdx.x; j < width; j += blockDim.x) dgamma[j] = dbeta[j] = 0;
    const Draw draw = DRAWN;
    Factors factors;
    for (whole row = blockIdx.x; row < rows; row += gridDim.x) {
        const whole at = row * width;
        real along_one = 0, along_x_hat = 0;
        for (whole j = threadIdx.x; j < width; j += blockDim.x) {  // the same thread for column j in every row
            const real g = dy[at + j] * gamma[j];
            along_one += g;
            along_x_hat += g * x_hat[at + j];
            dgamma[j] += dy[at + j] * x_hat[at + j];
            dbeta[j] += dy[at + j];
        }
        along_one = block_sum(along_one) / real(width);
        along_x_hat = block_sum(along_x_hat) / real(width);
        for (whole base = 0; base < width; base += Factors::room) {
            const whole end = base + Factors::room < width ? base + Factors::room : width;
            if (df) factors.draw(draw, at + base, end - base);
            for (whole j = base + threadIdx.x; j < end; j += blockDim.x) {
                real value = r[row] * (dy[at + j] * gamma[j] - along_one - x_hat[at + j] * along_x_hat);
                if (dsum) value += dsum[at + j];
                dx[at + j] = value;
                if (df) df[at + j] = factors.apply(value, at + j);
            }
        }
    }
    if (dgamma == nearby)
        for (whole j = threadIdx.x; j < width; j += blockDim.x) {
            kept[j] = dgamma[j];
            kept[width + j] = dbeta[j];
        }
}
