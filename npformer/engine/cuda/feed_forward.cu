// Everything between the two matrix products of a feed-forward layer, in one pass over h (N, F).
//
//     h = x W₁ + b₁      a = Drop(act(h))      y = a W₂ + b₂          act: ReLU, or GELU h·Φ(h)
//     dh = act'(h)·Drop(da)      db₁ = Σ_tokens dh                     GELU': Φ(h) + h·φ(h)
//
// ReLU keeps only a: where a is 0, because of ReLU or of dropout, dh is 0 too, and elsewhere dh = s·da with dropout's
// scale s. GELU keeps h, and draws the bits again.

#include "common.cuh"
#include "philox.cuh"
#include "unrolled.cuh"

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

// Columns that a thread loads before it writes one, and rows: stores wait for what was loaded, other loads need not.
enum { at_a_time = 4 };

template <bool is_gelu>
__device__ inline void activate_rows(
    real *h, const real *bias, real *a, whole rows, whole width, whole at_once, const Draw &draw
) {
    Factors factors;
    const whole first = blockIdx.x * at_once;
    stretches(first, first + at_once < rows ? first + at_once : rows, width, [&](whole begin, whole behind, whole from, whole to) {
        factors.draw(draw, begin * width + from, (behind - begin - 1) * width + to - from);
        const int count = int(to - from), step = int(blockDim.x);
        for (whole i = begin; i < behind; ++i) {
            const whole row = i * width + from;
            for (int j = threadIdx.x; j < count; j += at_a_time * step) {
                real before[at_a_time];
                UNROLLED
                for (int u = 0; u < at_a_time; ++u) {
                    const int k = j + u * step;
                    before[u] = k >= count ? real(0) : bias ? h[row + k] + bias[from + k] : h[row + k];
                }
                UNROLLED
                for (int u = 0; u < at_a_time; ++u) {
                    const int k = j + u * step;
                    if (k >= count) continue;
                    const real x = before[u];
                    if (is_gelu && bias) h[row + k] = x;
                    const real active = is_gelu ? x * normal_below(x) : x <= real(0) ? real(0) : x;
                    const real kept = factors.apply(active, row + k);  // ReLU passes a NaN on, so that it is noticed
                    a[row + k] = kept;
                }
            }
        }
    });
}

// a = Drop(relu(h + bias)). bias may be null; a may be h.
extern "C" __global__ void relu_rows(
    real *h, const real *bias, real *a, whole rows, whole width, whole at_once, DRAW
) {
    activate_rows<false>(h, bias, a, rows, width, at_once, DRAWN);
}

// a = Drop(gelu(h + bias)), and h becomes h + bias. bias may be null.
extern "C" __global__ void gelu_rows(
    real *h, const real *bias, real *a, whole rows, whole width, whole at_once, DRAW
) {
    activate_rows<true>(h, bias, a, rows, width, at_once, DRAWN);
}

// A block takes a tile of the columns, and a share of the rows.
enum { tile = 256 };
struct Share {
    whole part, column, behind, first, end;
    __device__ Share(whole rows, whole width) {
        const whole tiles = (width + tile - 1) / tile, parts = gridDim.x / tiles, share = (rows + parts - 1) / parts;
        part = blockIdx.x / tiles;
        column = blockIdx.x % tiles * tile;
        behind = column + tile < width ? column + tile : width;
        first = part * share;
        end = first + share < rows ? first + share : rows;
    }
};

// dh from da and a; dh may be da. Blocks: (parts · tiles). Each writes
// its sums of dh's columns to partials (parts, F), unless that is null; sums.cu adds them.
extern "C" __global__ void relu_rows_backward(
    const real *da, const real *a, real *dh, real *partials,
    whole rows, whole width, double scale
) {
    const Share share(rows, width);
    const real grow = real(scale);
    for (whole j = share.column + threadIdx.x; j < share.behind; j += blockDim.x) {
        real sum = 0;
        for (whole i = share.first; i < share.end; i += at_a_time) {
            real gradient[at_a_time];
            bool active[at_a_time];
            UNROLLED
            for (int u = 0; u < at_a_time; ++u) {
                const whole e = (i + u) * width + j;
                const bool there = i + u < share.end;
                gradient[u] = there ? da[e] : real(0);
                active[u] = there && a[e] != real(0);
            }
            UNROLLED
            for (int u = 0; u < at_a_time; ++u) {
                const whole e = (i + u) * width + j;
                const real value = active[u] ? gradient[u] * grow : real(0);
                if (i + u >= share.end) continue;
                dh[e] = value;
                sum += value;
            }
        }
        if (partials) partials[share.part * width + j] = sum;
    }
}

// dh from da and h; dh may be da. Each block takes a share of the rows, and writes its sums of dh's columns to partials
// (gridDim, F), unless that is null.
extern "C" __global__ void gelu_rows_backward(
    const real *da, const real *h, real *dh, real *partials, whole rows, whole width, DRAW
) {
    const Draw draw = DRAWN;
    Factors factors;
    const whole share = (rows + gridDim.x - 1) / gridDim.x, first = blockIdx.x * share;
    real *const sums = partials ? partials + blockIdx.x * width : nullptr;
    if (sums) for (whole j = threadIdx.x; j < width; j += blockDim.x) sums[j] = 0;
    __syncthreads();  // if a row is in pieces, one thread sets a column's sum to 0 and another adds to it
    stretches(first, first + share < rows ? first + share : rows, width, [&](whole begin, whole behind, whole from, whole to) {
        factors.draw(draw, begin * width + from, (behind - begin - 1) * width + to - from);
        for (whole j = from + threadIdx.x; j < to; j += blockDim.x) {
            real sum = 0;
            for (whole i = begin; i < behind; ++i) {
                const whole e = i * width + j;
                const real value = factors.apply(da[e], e) * gelu_slope(h[e]);
                dh[e] = value;
                sum += value;
            }
            if (sums) sums[j] += sum;
        }
    });
}
