// Sums over rows in two stages, each in a fixed order, so that two runs agree: parts of the rows, then the parts.

#include "common.cuh"

// partials[p, j] = Σ of x[i, j] over the rows i = p, p + parts, …   Blocks: (parts); a thread keeps to its columns.
extern "C" __global__ void column_partials(const real *x, real *partials, whole rows, whole width) {
    for (whole j = threadIdx.x; j < width; j += blockDim.x) {
        real sum = 0;
        for (whole i = blockIdx.x; i < rows; i += gridDim.x) sum += x[i * width + j];
        partials[whole(blockIdx.x) * width + j] = sum;
    }
}

// total[j] (+)= Σ_p partials[p, j], p < parts, where each part is `apart` numbers from the next.
extern "C" __global__ void add_partials(const real *partials, real *total, whole parts, whole apart, whole width, whole add) {
    for (whole j = first_of_all(); j < width; j += step_of_all()) {
        real sum = 0;
        for (whole p = 0; p < parts; ++p) sum += partials[p * apart + j];
        total[j] = add ? total[j] + sum : sum;
    }
}
