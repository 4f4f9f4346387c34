// Attention tile by tile: scores are in shared memory only, so global memory grows with T and not with T·S.
//
//     s_ij = q_i·k_j/√D where key j is visible to query i, else −∞     m_i = max_j s_ij     l_i = Σ_j exp(s_ij − m_i)
//     p_ij = exp(s_ij − m_i)/l_i     o_i = Σ_j p̃_ij v_j          p̃ = Drop(p)
//
// Forward reads the keys tile by tile, and knows m_i only after the last tile. Let m be the maximum so far and m' the
// maximum including the next tile. The sums so far contain the factor exp(−m), so they are multiplied by exp(m − m'):
//
//     l' = l·exp(m − m') + Σ_tile exp(s_j − m')       o' = o·exp(m − m') + Σ_tile Drop(exp(s_j − m')) v_j
//
// At the end o is divided by l. m_i and 1/l_i are kept, two numbers for each row, from which backward computes a tile's
// weights.
//
// Backward, with g the gradient of o; the operands of o = p̃ v, p̃ = Drop(p) and s = q kᵀ/√D one after the other:
//
//     dp̃_ij = g_i·v_j                     dv_j = Σ_i p̃_ij g_i
//     dp_ij = Drop(dp̃)_ij                 with the same bits
//     ds_ij = p_ij (dp_ij − δ_i)           as in functional/softmax.py;  δ_i = Σ_j p_ij dp_ij
//     dq_i = Σ_j ds_ij k_j/√D              dk_j = Σ_i ds_ij q_i/√D
//
// δ_i is a sum over all keys, also those of other tiles. But Drop multiplies p and dp̃ by the same number, so
//
//     δ_i = Σ_j p_ij keep_ij s (g_i·v_j) = g_i·Σ_j p̃_ij v_j = g_i·o_i
//
// A sum over i needs all queries for a key, a sum over j all keys for a query. So there are two kernels, each with its
// sums in shared memory, and no two blocks add to the same sum. If a head fits into one tile, one kernel computes both
// sums. It computes δ as the sum over j: then dp − δ is exactly 0 where one weight is 1, as in the plain pair.
//
// A query without visible keys has m = −∞ and l = 0. m and 1/l are set to 0 (−∞ + ∞ would be NaN), so its weights are
// 0. Tiles without visible pairs, because of causality or a window, are skipped. A window w leaves n·w pairs. Dropped
// weights are marked by their sign, as in attention_rows.cu.
//
// Source: Dao et al. 2022, arXiv:2205.14135, algorithms 1 and 4.

#include "common.cuh"
#include "reduce.cuh"
#include "philox.cuh"
#include "attention.cuh"
#include "attention_tiles.cuh"

// Turns products q·k into exp(s − m'), or 0 where dropped; updates m and l; sets shrink = exp(m − m').
__device__ inline void next_weights(const Tile &tile, Matrix w, real *top, real *sum, real *shrink) {
    const Team team(TEAM);
    for (int i = team.team; i < tile.rows; i += team.teams) {
        real highest = -real(INFINITY), total = 0;
        for (int j = team.rank; j < tile.cols; j += team.size) {
            w(i, j) = tile.score(i, j, w(i, j));
            highest = Larger()(highest, w(i, j));
        }
        const real before = top[i], after = Larger()(before, team.largest(highest));
        const real from = after == -real(INFINITY) ? real(0) : after;
        for (int j = team.rank; j < tile.cols; j += team.size) {
            const real weight = exp(w(i, j) - from);
            total += weight;
            w(i, j) = tile.bits.keep(i, j) ? weight * tile.draw.scale : real(0);
        }
        total = team.sum(total);
        team.sync();  // all threads have read top[i]
        if (team.rank == 0) {
            shrink[i] = exp(before - from);
            sum[i] = sum[i] * shrink[i] + total;
            top[i] = after;
        }
    }
}

// One block for each head and each most_rows of its queries. top and inverse: m and 1/l (B, H, T), for backward.
extern "C" __global__ void attend(
    HEADS(q), HEADS(k), HEADS(v), HEADS_OUT(out), real *top, real *inverse, whole heads, whole queries, whole keys,
    whole width, whole most_rows, whole most_cols, double factor, PATTERN, DRAW
) {
    __shared__ real numbers[TILE_ROOM];
    const Draw draw = DRAWN;
    const Pattern pattern = PATTERNED(queries, keys);
    const whole tiles = (queries + most_rows - 1) / most_rows, head = blockIdx.x / tiles, h = head % heads;
    Tile tile(pattern, draw, head, heads, width, factor);
    tile.queries(blockIdx.x % tiles * most_rows, most_rows);
    Room room{numbers};
    const Matrix query = room.matrix(most_rows, width), sums = room.matrix(most_rows, width);
    const Matrix other = room.matrix(most_cols, width), w = room.matrix(most_rows, most_cols);
    real *const m = room.take(most_rows), *const l = room.take(most_rows), *const shrink = room.take(most_rows);
    load(ROWS(q, tile.b, h), tile.t0, tile.rows, width, query);
    clear(sums, tile.rows, width);
    for (int i = threadIdx.x; i < tile.rows; i += blockDim.x) {
        m[i] = -real(INFINITY);
        l[i] = 0;
    }
    const whole end = pattern.end_key(tile.t0 + tile.rows - 1);
    for (whole j0 = pattern.first_key(tile.t0); j0 < end; j0 += most_cols) {
        __syncthreads();
        tile.keys(j0, most_cols);
        load(ROWS(k, tile.b, h), j0, tile.cols, width, other);
        tile.draw_bits();
        __syncthreads();
        tile.multiply(query, other, w);
        __syncthreads();
        load(ROWS(v, tile.b, h), j0, tile.cols, width, other);
        next_weights(tile, w, m, l, shrink);
        __syncthreads();
        tile.to_queries(w, other, [&](int i, int d, real sum) { sums(i, d) = sums(i, d) * shrink[i] + sum; });
    }
    __syncthreads();
    for (int i = threadIdx.x; i < tile.rows; i += blockDim.x) {
        l[i] = l[i] > 0 ? real(1) / l[i] : l[i];  // 0 without visible keys; a NaN stays
        top[tile.first_row() + i] = m[i] == -real(INFINITY) ? real(0) : m[i];
        inverse[tile.first_row() + i] = l[i];
    }
    __syncthreads();
    store(sums, l, ROWS(out, tile.b, h), tile.t0, tile.rows, width);
}

// One block for each head, which fits into one tile. The shared memory is used again: for q and k, then dout and v,
// then q and k.
extern "C" __global__ void attend_backward(
    HEADS(dout), HEADS(q), HEADS(k), HEADS(v), HEADS_OUT(dq), HEADS_OUT(dk), HEADS_OUT(dv), const real *top,
    const real *inverse, whole heads, whole queries, whole keys, whole width, double factor, PATTERN, DRAW
) {
    __shared__ real numbers[TILE_ROOM];
    const Draw draw = DRAWN;
    const Pattern pattern = PATTERNED(queries, keys);
    const whole head = blockIdx.x, h = head % heads;
    Tile tile(pattern, draw, head, heads, width, factor);
    tile.queries(0, queries);
    tile.keys(0, keys);
    Room room{numbers};
    const Matrix x = room.matrix(queries, width), y = room.matrix(keys, width);
    const Matrix w = room.matrix(queries, keys), dw = room.matrix(queries, keys);
    real *const m = room.take(queries), *const inv = room.take(queries);
    load(ROWS(q, tile.b, h), 0, tile.rows, width, x);
    load(ROWS(k, tile.b, h), 0, tile.cols, width, y);
    load_row(top + tile.first_row(), tile.rows, m);
    load_row(inverse + tile.first_row(), tile.rows, inv);
    tile.draw_bits();
    __syncthreads();
    tile.signed_weights(x, y, m, inv, w);
    load(ROWS(dout, tile.b, h), 0, tile.rows, width, x);
    load(ROWS(v, tile.b, h), 0, tile.cols, width, y);
    __syncthreads();
    tile.multiply(x, y, dw);
    real *const dvalues = dv + tile.b * dv_batch + h * dv_head;
    tile.to_values(w, x, [&](int j, int d, real sum) { dvalues[j * dv_row + d] = sum; });
    __syncthreads();
    load(ROWS(q, tile.b, h), 0, tile.rows, width, x);
    load(ROWS(k, tile.b, h), 0, tile.cols, width, y);
    const Team team(TEAM);
    for (int i = team.team; i < tile.rows; i += team.teams) {
        real delta = 0;
        for (int j = team.rank; j < tile.cols; j += team.size) delta += abs(w(i, j)) * tile.gradient(w(i, j), dw(i, j));
        delta = team.sum(delta);
        for (int j = team.rank; j < tile.cols; j += team.size) dw(i, j) = tile.dproduct(w(i, j), dw(i, j), delta);
    }
    __syncthreads();
    real *const dqueries = dq + tile.b * dq_batch + h * dq_head, *const dkeys = dk + tile.b * dk_batch + h * dk_head;
    tile.to_queries(dw, y, [&](int i, int d, real sum) { dqueries[i * dq_row + d] = sum; });
    tile.to_keys(dw, x, [&](int j, int d, real sum) { dkeys[j * dk_row + d] = sum; });
}
