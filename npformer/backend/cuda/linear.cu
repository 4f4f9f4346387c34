// The bias of a linear map: the product x W is made by cuBLAS, and every one of its rows is moved by b.
//
//     y = x W + b

#include "common.cuh"

// Each block takes at_once rows; a thread keeps to its columns, so b is read once for all of them.
extern "C" __global__ void add_bias(real *y, const real *bias, whole rows, whole width, whole at_once) {
    const whole first = blockIdx.x * at_once, end = first + at_once < rows ? first + at_once : rows;
    for (whole j = threadIdx.x; j < width; j += blockDim.x) {
        const real moved = bias[j];
        for (whole i = first; i < end; ++i) y[i * width + j] += moved;
    }
}
