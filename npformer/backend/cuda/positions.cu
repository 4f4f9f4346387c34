// Positions: a vector that says where a token stands is added to it, y_bt = x_bt + P_{t+offset}.
//
//     sinusoidal: P_{p,2i} = sin(p·ω_i), P_{p,2i+1} = cos(p·ω_i), ω_i = exp(−2i·ln 10000/C), always in double
//     learned: row p of a table
//
// A block takes some columns (t, j) of x seen as (B, T·C), and every `apart`-th sequence of the batch: P is computed or
// read once for all of them.

#include "common.cuh"

// Blocks: (apart · pieces), a piece being `piece` columns. table is null where positions are sinusoidal.
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
