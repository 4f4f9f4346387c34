// Sums over the rows of a matrix, in a fixed order, so that two runs give the same bits.
//
//     total[j] = Σ_i x[i, j]
//
// A block adds some columns of some rows. Each of its cells (groups × columns) adds every `groups`-th row of one
// column; then the cells of each column are added. Few rows need one such pass. Many rows are divided into parts, whose
// sums are the rows of a second pass. Neither the cells nor their order depend on the number of threads.

#include "common.cuh"

enum { columns = 32, groups = 32 };

// Blocks: (parts · tiles), where a tile is `columns` columns. `apart` is the stride of a row in numbers. The sums of
// columns j < split are written to first[j], the others to second[j − split]; either may be null and is then not
// written. Several parts are written as (parts, width). add: the sums are added to what is there.
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
