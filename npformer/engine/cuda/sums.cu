// Sums over the rows of matrices, in a fixed order, so that two runs give the same bits. One launch makes many.
//
//     total[j] = Σ_i x[i, j]
//
// A block adds some columns of some rows of one matrix. Each of its cells (groups × columns) adds every `groups`-th row
// of one column; then the cells of each column are added. Few rows need one such pass. Many rows are divided into
// parts, whose sums are the rows of a second pass. Neither the cells nor their order depend on the number of threads,
// nor on the other sums of the launch.

#include "common.cuh"
#include "unrolled.cuh"

enum { columns = 32, groups = 32, most_sums = 60, in_flight = 8 };  // in_flight: loads of a cell

// The sum of x (rows, width), whose rows are `apart` numbers apart, in tiles of `columns` columns. Several parts are
// written as (parts, width). add: the sum is added to what is there. blocks: those of this sum and all before it.
struct Sum {
    whole x, total, rows, apart, width, parts, add, blocks;  // x and total are addresses
};
struct Sums {
    Sum of[most_sums];
};

extern "C" __global__ void add_rows(const Sums sums, whole count) {
    __shared__ real cells[groups * columns];
    int low = 0, high = int(count) - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (sums.of[middle].blocks <= whole(blockIdx.x)) low = middle + 1;
        else high = middle;
    }
    const whole rows = sums.of[low].rows, apart = sums.of[low].apart, width = sums.of[low].width;
    const whole parts = sums.of[low].parts, block = blockIdx.x - (low > 0 ? sums.of[low - 1].blocks : 0);
    const whole tiles = (width + columns - 1) / columns, tile = block % tiles * columns, part = block / tiles;
    const real *const x = reinterpret_cast<const real *>(sums.of[low].x);
    real *const total = reinterpret_cast<real *>(sums.of[low].total) + part * width;
    for (int cell = threadIdx.x; cell < groups * columns; cell += blockDim.x) {
        const whole j = tile + cell % columns;
        const whole step = parts * groups;
        whole i = part * groups + cell / columns;
        real sum = 0;
        for (; j < width && i + (in_flight - 1) * step < rows; i += in_flight * step) {
            real loaded[in_flight];
            UNROLLED
            for (int u = 0; u < in_flight; ++u) loaded[u] = x[(i + u * step) * apart + j];
            UNROLLED
            for (int u = 0; u < in_flight; ++u) sum += loaded[u];
        }
        for (; j < width && i < rows; i += step) sum += x[i * apart + j];
        cells[cell] = sum;
    }
    __syncthreads();
    for (int column = threadIdx.x; column < columns && tile + column < width; column += blockDim.x) {
        real sum = 0;
        for (int group = 0; group < groups; ++group) sum += cells[group * columns + column];
        total[tile + column] = sums.of[low].add ? total[tile + column] + sum : sum;
    }
}
