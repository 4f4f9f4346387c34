// Sums over the rows of a matrix, in a fixed order, so that two runs agree.
//
//     total[j] = Σ_i x[i, j]
//
// A block adds some columns of some rows: its cells (groups × columns) each go down one column in steps of `groups` rows,
// then each column's cells are added. Few rows need one such pass; many are divided into parts, whose sums are the rows
// of a second pass. Neither the cells nor their order depend on the number of threads.

#include "common.cuh"

enum { columns = 32, groups = 32 };

// Blocks: (parts · tiles), a tile being `columns` columns. Rows are `apart` numbers from each other. Columns j < split go
// to first[j], the others to second[j − split]; what is null is not wanted. Several parts are written one after the
// other (parts, width). add: on top of what is there.
extern "C" __global__ void add_rows(
    const real *__restrict__ x, real *first, real *second, whole rows, whole apart, whole width, whole split, whole tiles, whole add
) {
    __shared__ real sums[groups * columns];
    const whole tile = blockIdx.x % tiles * columns, part = blockIdx.x / tiles, parts = gridDim.x / tiles;
    for (int cell = threadIdx.x; cell < groups * columns; cell += blockDim.x) {
        const whole j = tile + cell % columns;
        real sum = 0;
        if (j < width)
            for (whole i = part * groups + cell / columns; i < rows; i += parts * groups) sum += x[i * apart + j];
        sums[cell] = sum;
    }
    __syncthreads();
    for (int column = threadIdx.x; column < columns && tile + column < width; column += blockDim.x) {
        const whole j = tile + column;
        real *const place = j < split ? first : second;
        const whole to = j < split ? part * width + j : j - split;
        if (!place) continue;
        real sum = 0;
        for (int group = 0; group < groups; ++group) sum += sums[group * columns + column];
        place[to] = add ? place[to] + sum : sum;
    }
}
