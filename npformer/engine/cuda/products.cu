// The addresses of the matrices of a batched product, for cuBLAS functions that take an array of pointers.

#include "common.cuh"

enum { most_lists = 9 };
struct Places {
    whole start, outer, inner;  // the address of the first matrix, and the bytes to the next along either axis
};
struct Lists {
    Places of[most_lists];
};

// addresses (lists, n0·n1): the addresses of the matrices of several arrays.
extern "C" __global__ void matrix_addresses(word *addresses, const Lists lists, whole count, whole n0, whole n1) {
    for (whole i = first_of_all(); i < count * n0 * n1; i += step_of_all()) {
        const whole list = i / (n0 * n1), matrix = i % (n0 * n1);
        whole at = 0;
        for (int k = 0; k < most_lists; ++k)
            if (k == list) at = lists.of[k].start + matrix / n1 * lists.of[k].outer + matrix % n1 * lists.of[k].inner;
        addresses[i] = word(at);
    }
}
