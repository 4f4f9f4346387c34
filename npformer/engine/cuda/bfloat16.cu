// float32 rounded to bfloat16, its upper 16 bits: to the nearest, ties to even; a NaN stays a NaN.

#include "common.cuh"
#include "bfloat16.cuh"

// out (n0, n1, rows, width), row-major, from x with the given strides in numbers; the last axis of x is contiguous.
// Each block converts at_once rows of one matrix. out has `size` numbers: the last matrix may end earlier.
extern "C" __global__ void round_rows(
    const real *x, unsigned short *out, whole size, whole n1, whole rows, whole width, whole apart0, whole apart1,
    whole apart, whole at_once
) {
    const whole stretches = (rows + at_once - 1) / at_once, matrix = blockIdx.x / stretches;
    const whole first = blockIdx.x % stretches * at_once;
    const real *const from = x + matrix / n1 * apart0 + matrix % n1 * apart1 + first * apart;
    const whole to = (matrix * rows + first) * width;
    const unsigned here = unsigned(rows - first < at_once ? rows - first : at_once), wide = unsigned(width);
    for (unsigned i = threadIdx.x; i < here * wide; i += blockDim.x) {  // 32 bits: a 64-bit division is slower than memory
        if (to + i < size) out[to + i] = to_bfloat16(from[i / wide * apart + i % wide]);
    }
}
