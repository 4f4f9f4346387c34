// The bias of a linear map, where cuBLASLt does not add it: cuBLAS computes x W, and b is added to each of its rows.
//
//     y = x W + b

#include "common.cuh"

// Each block adds b to at_once rows. A thread has the same columns in all of them, so it reads b once.
extern "C" __global__ void add_bias(real *y, const real *bias, whole rows, whole width, whole at_once) {
    const whole first = blockIdx.x * at_once, end = first + at_once < rows ? first + at_once : rows;
    for (whole j = threadIdx.x; j < width; j += blockDim.x) {
        const real moved = bias[j];
        for (whole i = first; i < end; ++i) y[i * width + j] += moved;
    }
}
