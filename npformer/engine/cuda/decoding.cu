// The end of a decoding step, and its keys and values, for a position in device memory: one graph serves all positions.
//
// now (4, B) has of each row its newest token, whether it goes on, the position of that token, and its place in the
// row's own text, which has no padding on the left. A row that has ended is fed pads.

#include "common.cuh"
#include "reduce.cuh"

// Writes the newest keys and values (B, H, 1, D) into caches (B, H, room, D), and whether they may be seen: no pads are.
extern "C" __global__ void write_newest(
    const real *k, const real *v, whole k_batch, whole k_head, whole v_batch, whole v_head, real *keys, real *values,
    bool *visible, const whole *now, whole rows, whole heads, whole room, whole width, whole pad
) {
    for (whole i = first_of_all(); i < rows * heads * width; i += step_of_all()) {
        const whole d = i % width, h = i / width % heads, b = i / width / heads, position = now[2 * rows + b];
        const whole to = ((b * heads + h) * room + position) * width + d;
        keys[to] = k[b * k_batch + h * k_head + d];
        values[to] = v[b * v_batch + h * v_head + d];
        if (d == 0 && h == 0) visible[b * room + position] = now[b] != pad;
    }
}

// The likeliest token of each row, the first of equals, becomes its newest. A NaN is the largest, as in NumPy.
// chosen (room, B) keeps what was chosen at each position. One block for each row.
extern "C" __global__ void choose(
    const real *logits, whole *now, whole *chosen, whole rows, whole width, whole eos, whole pad
) {
    const real *const row = logits + blockIdx.x * width;
    real top = -real(INFINITY);
    for (whole j = threadIdx.x; j < width; j += blockDim.x) top = Larger()(row[j], top);
    top = block_max(top);
    whole first = width;
    for (whole j = threadIdx.x; j < width && first == width; j += blockDim.x)
        if (row[j] == top || row[j] != row[j]) first = j;
    first = whole(-block_max(-real(first)));  // exact: there are fewer than 2²⁴ tokens
    if (threadIdx.x > 0) return;
    whole *const token = now + blockIdx.x, *const goes_on = token + rows, *const position = goes_on + rows;
    *token = *goes_on ? first : pad;
    chosen[*position * rows + blockIdx.x] = *token;
    *goes_on = *goes_on && first != eos;
    *position += 1;
    position[rows] += 1;
}
