// Adam and AdamW over an arena, and the norm of its gradient, each in one pass.
//
//     m ← β₁m + (1 − β₁)g      v ← β₂v + (1 − β₂)g²      p ← p·(1 − lr·λ) − lr·m̂/(√v̂ + ε)
//
// The numbers that change from step to step are read from memory: rates = (lr, 1/(1 − β₁ᵗ), 1/(1 − β₂ᵗ)), and `shrink`,
// the factor by which clipping multiplies g. So a CUDA graph of a step can be replayed.
//
// An arena is a list of runs. Run r has the elements start … stop − 1, given by row r of places (R, 2), and a factor of
// the learning rate and a weight decay λ, given by row r of scales (R, 2). The runs are in ascending order. Elements
// outside all runs (gaps, frozen parameters) are not changed. If the list is null, all elements are one run. A moment
// below 1e-30 no longer has an effect and is set to 0, as in the other fast kernels for Adam.

#include "common.cuh"
#include "reduce.cuh"

struct Runs {
    const whole *places;
    whole count, size;

    __device__ whole start(whole run) const { return places ? places[2 * run] : 0; }
    __device__ whole stop(whole run) const { return places ? places[2 * run + 1] : size; }

    __device__ whole first_behind(whole e) const {  // the first run that ends after element e, by binary search
        whole low = 0, high = count;
        while (low < high) {
            const whole middle = (low + high) / 2;
            if (stop(middle) <= e) low = middle + 1;
            else high = middle;
        }
        return low;
    }
};

// Each block updates `stretch` elements. shrink may be null. places and scales may be null: then there is one run, with
// the weight decay `decay`.
extern "C" __global__ void adam(
    real *__restrict__ p, const real *__restrict__ g, real *__restrict__ m, real *__restrict__ v,
    const whole *__restrict__ places, const double *__restrict__ scales, whole count, whole size, whole stretch,
    const double *__restrict__ rates, const real *__restrict__ shrink, double beta1, double beta2, double eps,
    double decay
) {
    const whole first = blockIdx.x * stretch, end = first + stretch < size ? first + stretch : size;
    const real keep1 = real(beta1), new1 = real(1 - beta1), keep2 = real(beta2), new2 = real(1 - beta2), small = real(eps);
    const real correction = real(sqrt(rates[2])), negligible = real(1e-30), clip = shrink ? *shrink : real(1);
    const Runs runs{places, count, size};
    for (whole run = runs.first_behind(first); run < count && runs.start(run) < end; ++run) {
        const whole start = runs.start(run) > first ? runs.start(run) : first;
        const whole stop = runs.stop(run) < end ? runs.stop(run) : end;
        const double rate = rates[0] * (scales ? scales[2 * run] : 1);
        const real step = real(rate * rates[1]), factor = real(1 - rate * (scales ? scales[2 * run + 1] : decay));
        for (whole e = start + threadIdx.x; e < stop; e += blockDim.x) {
            const real gradient = clip * g[e];
            real mean = keep1 * m[e] + new1 * gradient, square = keep2 * v[e] + new2 * (gradient * gradient);
            if (mean < negligible && -mean < negligible) mean = 0;
            if (square < negligible) square = 0;
            m[e] = mean;
            v[e] = square;
            p[e] = p[e] * factor - step * mean / (sqrt(square) * correction + small);
        }
    }
}

// partials[block] = Σ g² over the runs. A block sums every gridDim-th stretch of elements.
extern "C" __global__ void square_partials(
    const real *__restrict__ g, const whole *__restrict__ places, whole count, whole size, whole stretch, real *partials
) {
    const Runs runs{places, count, size};
    real sum = 0;
    for (whole first = blockIdx.x * stretch; first < size; first += gridDim.x * stretch) {
        const whole end = first + stretch < size ? first + stretch : size;
        for (whole run = runs.first_behind(first); run < count && runs.start(run) < end; ++run) {
            const whole start = runs.start(run) > first ? runs.start(run) : first;
            const whole stop = runs.stop(run) < end ? runs.stop(run) : end;
            for (whole e = start + threadIdx.x; e < stop; e += blockDim.x) sum += g[e] * g[e];
        }
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

// One block: norm = √(Σ partials) and, unless it is null, shrink = longest/max(norm, longest).
extern "C" __global__ void length_of(const real *partials, real *norm, real *shrink, whole count, double longest) {
    real sum = 0;
    for (whole i = threadIdx.x; i < count; i += blockDim.x) sum += partials[i];
    sum = block_sum(sum);
    if (threadIdx.x > 0) return;
    const real length = sqrt(sum);
    *norm = length;
    if (shrink) *shrink = real(longest) / (length > real(longest) ? length : real(longest));
}
