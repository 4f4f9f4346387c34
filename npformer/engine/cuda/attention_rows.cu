// Attention between two matrix products: the scores (B, H, T, S) of all pairs are in memory, one row for each query.
//
//     p_j = exp(s_j − m)/Σ_k exp(s_k − m)      s_j = scores_j/√D where key j is visible, else −∞      m = max_j s_j
//     ds_i = p_i·(dp_i − Σ_j p_j·dp_j)/√D      dp = ddropped·keep·s
//
// m and the sum are computed in one pass: when a larger score m' appears, the sum so far is multiplied by exp(m − m').
// Backward needs dropout's mask, which costs no memory: a weight is never negative, so a set sign bit means "dropped".
//
//     kept weight    p ≥ 0     dropped weight    −p
//
// A query without visible keys has m = −∞, which is replaced by 0 (−∞ + ∞ would be NaN). Its weights are 0, not 0/0.

#include "common.cuh"
#include "reduce.cuh"
#include "philox.cuh"
#include "attention.cuh"

struct Row {
    const Pattern &pattern;
    const Draw &draw;
    real *scores, *dropped;
    whole b, t, first;  // first: the number of its first pair
    real factor, top, inverse;

    __device__ real score(whole j) const {
        return pattern.sees(b, t, j) ? scores[first + j] * factor : -real(INFINITY);
    }

    __device__ void measure(const Team &team) {
        real highest = -real(INFINITY), sum = 0;
        for (whole j = team.rank; j < pattern.keys; j += team.size) {
            const real s = score(j);
            if (s == -real(INFINITY)) continue;
            if (s > highest || s != s) {  // a NaN stays
                sum = sum * exp(highest - s) + real(1);
                highest = s;
            } else {
                sum += exp(s - highest);
            }
        }
        top = team.largest(highest);
        if (top == -real(INFINITY)) top = 0;
        const real total = team.sum(sum * exp(highest - top));
        inverse = total > 0 ? real(1) / total : total;
    }

    __device__ void weigh(const Team &team, const Factors &factors, whole begin, whole end) {
        for (whole j = begin + team.rank; j < end; j += team.size) {
            const real weight = exp(score(j) - top) * inverse;
            const bool kept = factors.of(first + j) != real(0);
            scores[first + j] = kept ? weight : -weight;
            if (dropped) dropped[first + j] = factors.apply(weight, first + j);
        }
    }
};

// Each block turns per_block rows of scores into signed weights, in place, and writes the weights after dropout (null:
// without dropout). Each warp computes a row, and per_block·S <= Factors::room; or, if per_block = 1, the whole block
// computes one row of any length.
extern "C" __global__ void weigh_rows(
    real *scores, real *dropped, whole rows, whole keys, whole per_block, whole heads, whole queries, PATTERN,
    double factor, DRAW
) {
    const Draw draw = DRAWN;
    const Pattern pattern = PATTERNED(queries, keys);
    const whole begin = blockIdx.x * per_block, end = least(rows, begin + per_block);
    const Team team(per_block == 1 ? 0 : 32);
    Factors factors;
    if (team.lanes) factors.draw(draw, begin * keys, (end - begin) * keys);
    for (whole i = begin + team.team; i < end; i += team.teams) {
        Row row{pattern, draw, scores, dropped, i / (heads * queries), i % queries, i * keys, real(factor), 0, 0};
        row.measure(team);
        if (team.lanes) row.weigh(team, factors, 0, keys);
        else
            for (whole base = 0; base < keys; base += Factors::room) {
                const whole stop = least(keys, base + Factors::room);
                factors.draw(draw, row.first + base, stop - base);
                row.weigh(team, factors, base, stop);
            }
    }
}

// Turns the gradient of the weights after dropout into the gradient of the products Q Kᵀ, in place, and computes the
// weights after dropout again (null: without dropout). weights are the signed weights. Blocks as in weigh_rows.
extern "C" __global__ void weigh_rows_backward(
    const real *weights, real *gradients, real *dropped, whole rows, whole keys, whole per_block, double factor,
    double scale
) {
    const whole begin = blockIdx.x * per_block, end = least(rows, begin + per_block);
    const Team team(per_block == 1 ? 0 : 32);
    const real grow = real(scale), shrink = real(factor);
    for (whole i = begin + team.team; i < end; i += team.teams) {
        const real *const weight = weights + i * keys;
        real *const gradient = gradients + i * keys;
        real shared = 0;
        for (whole j = team.rank; j < keys; j += team.size) {
            const real w = weight[j], kept = w < 0 ? real(0) : gradient[j] * grow;
            shared += kept * abs(w);
        }
        shared = team.sum(shared);
        for (whole j = team.rank; j < keys; j += team.size) {
            const real w = weight[j], kept = w < 0 ? real(0) : gradient[j] * grow;
            gradient[j] = abs(w) * (kept - shared) * shrink;
            if (dropped) dropped[i * keys + j] = w < 0 ? real(0) : w * grow;
        }
    }
}
