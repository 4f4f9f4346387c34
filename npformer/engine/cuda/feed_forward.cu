// Everything between the two matrix products of a feed-forward layer, in one pass over h (N, F).
//
//     h = x W₁ + b₁      a = Drop(act(h))      y = a W₂ + b₂          act: ReLU, or GELU h·Φ(h)
//     dh = act'(h)·Drop(da)      db₁ = Σ_tokens dh                     GELU': Φ(h) + h·φ(h)
//
// ReLU keeps only a: where a is 0, because of ReLU or of dropout, dh is 0 too, and elsewhere dh = s·da with dropout's
// scale s. GELU keeps h, and draws the bits again. a and dh are written as real numbers, or in bfloat16 (narrow) for a
// product that reads bfloat16.

#include "common.cuh"
#include "philox.cuh"
#include "bfloat16.cuh"

__device__ inline real normal_below(real x) {  // Φ(x)
    return real(0.5) * (real(1) + erf(x * real(0.7071067811865476)));
}

__device__ inline real gelu_slope(real x) {
    return normal_below(x) + x * (exp(real(-0.5) * x * x) * real(0.3989422804014327));  // φ(0) = 1/√(2π)
}

// The rows first … end − 1, in stretches of at most Factors::room elements: several rows if they are short, a part of a
// row if it is long. Calls each(begin, behind, from, to) for rows begin … behind − 1 and columns from … to − 1.
template <class Each>
__device__ inline void stretches(whole first, whole end, whole width, Each each) {
    const whole together = 0 < width && width < Factors::room ? Factors::room / width : 1;
    for (whole from = 0; from < width; from += Factors::room) {
        const whole to = from + Factors::room < width ? from + Factors::room : width;
        for (whole begin = first; begin < end; begin += together)
            each(begin, begin + together < end ? begin + together : end, from, to);
    }
}

template <bool is_gelu>
__device__ inline void activate_rows(
    real *h, const real *bias, real *a, unsigned short *narrow, whole rows, whole width, whole at_once, const Draw &draw
) {
    Factors factors;
    const whole first = blockIdx.x * at_once;
    stretches(first, first + at_once < rows ? first + at_once : rows, width, [&](whole begin, whole behind, whole from, whole to) {
        factors.draw(draw, begin * width + from, (behind - begin - 1) * width + to - from);
        for (whole j = from + threadIdx.x; j < to; j += blockDim.x) {
            const real moved = bias ? bias[j] : real(0);
            for (whole i = begin; i < behind; ++i) {
                const whole e = i * width + j;
                const real before = bias ? h[e] + moved : h[e];
                if (is_gelu && bias) h[e] = before;
                const real active = is_gelu ? before * normal_below(before) : before <= real(0) ? real(0) : before;
                const real kept = factors.apply(active, e);  // ReLU passes a NaN on, so that it is noticed
                if (a) a[e] = kept;
                if (narrow) narrow[e] = to_bfloat16(kept);
            }
        }
    });
}

// a = Drop(relu(h + bias)). bias may be null; a may be h, or null; narrow may be null.
extern "C" __global__ void relu_rows(
    real *h, const real *bias, real *a, unsigned short *narrow, whole rows, whole width, whole at_once, DRAW
) {
    activate_rows<false>(h, bias, a, narrow, rows, width, at_once, DRAWN);
}

// a = Drop(gelu(h + bias)), and h becomes h + bias. bias may be null; a may be null, narrow too.
extern "C" __global__ void gelu_rows(
    real *h, const real *bias, real *a, unsigned short *narrow, whole rows, whole width, whole at_once, DRAW
) {
    activate_rows<true>(h, bias, a, narrow, rows, width, at_once, DRAWN);
}

template <bool is_gelu>
__device__ inline void activate_rows_backward(
    const real *da, const real *kept, const unsigned short *narrow_kept, real *dh, unsigned short *narrow,
    real *partials, whole rows, whole width, const Draw &draw
) {
    Factors factors;
    const whole share = (rows + gridDim.x - 1) / gridDim.x, first = blockIdx.x * share;
    real *const sums = partials ? partials + blockIdx.x * width : nullptr;
    if (sums) for (whole j = threadIdx.x; j < width; j += blockDim.x) sums[j] = 0;
    __syncthreads();  // if a row is in pieces, one thread sets a column's sum to 0 and another adds to it
    stretches(first, first + share < rows ? first + share : rows, width, [&](whole begin, whole behind, whole from, whole to) {
        if (is_gelu) factors.draw(draw, begin * width + from, (behind - begin - 1) * width + to - from);
        for (whole j = from + threadIdx.x; j < to; j += blockDim.x) {
            real sum = 0;
            for (whole i = begin; i < behind; ++i) {
                const whole e = i * width + j;
                real value;
                if (is_gelu) value = factors.apply(da[e], e) * gelu_slope(kept[e]);
                else value = (narrow_kept ? narrow_kept[e] != 0 : kept[e] != real(0)) ? da[e] * real(draw.scale) : real(0);
                if (dh) dh[e] = value;
                if (narrow) narrow[e] = to_bfloat16(value);
                sum += value;
            }
            if (sums) sums[j] += sum;
        }
    });
}

// dh from da and a, which is given as real numbers or as bfloat16; dh may be da. Each block writes its sums of dh's
// columns to partials (gridDim, F), unless that is null; sums.cu adds them.
extern "C" __global__ void relu_rows_backward(
    const real *da, const real *a, const unsigned short *narrow_a, real *dh, unsigned short *narrow, real *partials,
    whole rows, whole width, DRAW
) {
    activate_rows_backward<false>(da, a, narrow_a, dh, narrow, partials, rows, width, DRAWN);
}

// dh from da and h; dh may be da. partials as for ReLU.
extern "C" __global__ void gelu_rows_backward(
    const real *da, const real *h, real *dh, unsigned short *narrow, real *partials, whole rows, whole width, DRAW
) {
    activate_rows_backward<true>(da, h, nullptr, dh, narrow, partials, rows, width, DRAWN);
}
