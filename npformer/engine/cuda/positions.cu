// Positions: the vector of its position is added to each token, y_bt = x_bt + P_{t+offset}.
//
//     sinusoidal: P_{p,2i} = sin(p·ω_i), P_{p,2i+1} = cos(p·ω_i), ω_i = exp(−2i·ln 10000/C), always in double
//     learned: row p of a table
//
// A block computes some columns (t, j) of x, viewed as (B, T·C), of every `apart`-th sequence of the batch. It computes
// or reads P once for all of them.

#include "common.cuh"

// Blocks: (apart · pieces), where a piece is `piece` columns. table is null if positions are sinusoidal.
extern "C" __global__ void add_positions(
    const real *__restrict__ x, const real *__restrict__ table, real *__restrict__ y, whole batch, whole length, whole width,
    whole offset, whole piece, whole pieces
) {
    const whole columns = length * width, first = blockIdx.x % pieces * piece, apart = gridDim.x / pieces;
    const whole end = first + piece < columns ? first + piece : columns;
    for (whole column = first + threadIdx.x; column < end; column += blockDim.x) {
        real position;
        if (table) {
            position = table[offset * width + column];
        } else {
            const whole t = column / width, j = column - t * width;
            const double angle = double(offset + t) * exp(double(j / 2) * (-2 * 9.210340371976184 / double(width)));
            position = real(j % 2 ? cos(angle) : sin(angle));
        }
        for (whole b = blockIdx.x / pieces; b < batch; b += apart) y[b * columns + column] = x[b * columns + column] + position;
    }
}
