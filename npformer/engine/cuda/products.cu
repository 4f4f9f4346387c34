// The addresses of the matrices of a batched product, for cuBLAS functions that take an array of pointers.

#include "common.cuh"

// addresses (3, n0·n1): the addresses of a's, b's and out's matrices, from the first and the strides in bytes.
extern "C" __global__ void matrix_addresses(
    word *addresses, whole n0, whole n1, whole a, whole a0, whole a1, whole b, whole b0, whole b1, whole out,
    whole out0, whole out1
) {
    const whole count = n0 * n1;
    for (whole i = first_of_all(); i < count; i += step_of_all()) {
        const whole outer = i / n1, inner = i % n1;
        addresses[i] = word(a + outer * a0 + inner * a1);
        addresses[count + i] = word(b + outer * b0 + inner * b1);
        addresses[2 * count + i] = word(out + outer * out0 + inner * out1);
    }
}
