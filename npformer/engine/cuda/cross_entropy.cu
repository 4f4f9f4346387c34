// Label-smoothed cross-entropy of a token's logits z (V) at its target, and the mean over the tokens that count.
//
//     loss_n = log Σ_v exp(z_v − top) − Σ_v q_v·(z_v − top)        top = max z
//     dz_v = dloss/N·(p_v − q_v)        p_v = exp(z_v − top)·inverse        inverse = 1/Σ exp(z_v − top)
//
// q_v = smoothing/V, and 1 − smoothing more at the target. Of the distribution two numbers for each token are kept. N
// is counted here, so the host does not wait for it. A token whose target is `ignored` has loss 0 and gradient 0,
// whatever its logits are.

#include "common.cuh"
#include "reduce.cuh"

// One block for each token.
extern "C" __global__ void token_losses(
    const real *__restrict__ logits, const whole *targets, real *top, real *inverse, real *losses, whole classes,
    whole ignoring, whole ignored, double smoothing
) {
    const whole n = blockIdx.x, target = targets[n];
    if (ignoring && target == ignored) {  // all threads of the block return, so no barrier waits
        if (threadIdx.x == 0) top[n] = inverse[n] = losses[n] = 0;
        return;
    }
    const real *const z = logits + n * classes;
    real highest = -real(INFINITY);
    for (whole v = threadIdx.x; v < classes; v += blockDim.x) highest = Larger()(z[v], highest);
    highest = block_max(highest);
    real total = 0, shifted = 0;
    for (whole v = threadIdx.x; v < classes; v += blockDim.x) {
        total += exp(z[v] - highest);
        shifted += z[v] - highest;
    }
    total = block_sum(total);
    real expected = smoothing > 0 ? real(smoothing / double(classes)) * block_sum(shifted) : real(0);
    if (target >= 0 && target < classes) expected += real(1 - smoothing) * (z[target] - highest);
    if (threadIdx.x == 0) {
        top[n] = highest;
        inverse[n] = real(1) / total;
        losses[n] = log(total) - expected;
    }
}

// One block: the mean loss, and the number of tokens that count, at least 1.
extern "C" __global__ void mean_loss(
    const real *__restrict__ losses, const whole *__restrict__ targets, real *loss, real *num_counted, whole count,
    whole ignoring, whole ignored
) {
    real sum = 0, counted = 0;
    for (whole n = threadIdx.x; n < count; n += blockDim.x) {
        if (ignoring && targets[n] == ignored) continue;
        sum += losses[n];
        counted += real(1);
    }
    sum = block_sum(sum);
    counted = block_sum(counted);
    if (threadIdx.x > 0) return;
    *num_counted = counted > real(0) ? counted : real(1);
    *loss = sum / *num_counted;
}

// One block for each token. dloss points to a number; if it is null, the argument after it is used.
extern "C" __global__ void token_losses_backward(
    const real *__restrict__ logits, const whole *targets, const real *top, const real *inverse, const real *num_counted,
    const real *dloss_at, double dloss, real *__restrict__ dlogits, whole classes, whole ignoring, whole ignored,
    double smoothing
) {
    const whole n = blockIdx.x, target = targets[n];
    const real *const z = logits + n * classes;
    real *const dz = dlogits + n * classes;
    const bool counts = !(ignoring && target == ignored);
    const real part = (dloss_at ? *dloss_at : real(dloss)) / *num_counted;
    const real highest = top[n], factor = inverse[n], even = real(smoothing / double(classes)), sure = real(1 - smoothing);
    for (whole v = threadIdx.x; v < classes; v += blockDim.x) {
        const real q = v == target ? even + sure : even;
        dz[v] = counts ? (exp(z[v] - highest) * factor - q) * part : real(0);
    }
}
