// Dropout, alone or before a residual sum: y = Drop(f), or y = x + Drop(f). Backward is the same with dy for f: the
// bits are a pure function of their numbers, so they are drawn again and not kept.

#include "common.cuh"
#include "philox.cuh"

// Each block computes `stretch` elements, at most Factors::room; its threads draw their bits together. x may be null.
extern "C" __global__ void drop(
    const real *__restrict__ x, const real *__restrict__ f, real *__restrict__ y, whole size, whole stretch, DRAW
) {
    const Draw draw = DRAWN;
    const whole first = blockIdx.x * stretch, end = first + stretch < size ? first + stretch : size;
    Factors factors;
    factors.draw(draw, first, end - first);
    for (whole e = first + threadIdx.x; e < end; e += blockDim.x) {
        const real value = factors.apply(f[e], e);
        y[e] = x ? x[e] + value : value;
    }
}
