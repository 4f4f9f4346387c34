// Attention between two matrix products: the scores (B, H, T, S) of all pairs are in memory, one row for each query.
//
//     p_j = exp(s_j − m)/Σ_k exp(s_k − m)      s_j = scores_j/√D where key j is visible, else −∞      m = max_j s_j
//     ds_i = p_i·(dp_i − Σ_j p_j·dp_j)/√D      dp = ddropped·keep·s
//
// A short row is kept in registers. In a longer one m and the sum are computed in one pass: when a larger score m'
// appears, the sum so far is multiplied by exp(m − m').
// Backward needs dropout's mask, which costs no memory: a weight is never negative, so a set sign bit means "dropped".
//
//     kept weight    p ≥ 0     dropped weight    −p
//
// A query without visible keys has m = −∞, which is replaced by 0 (−∞ + ∞ would be NaN). Its weights are 0, not 0/0.

#include "common.cuh"
#include "reduce.cuh"
#include "philox.cuh"
#include "attention.cuh"

// A lane keeps up to `held` numbers of a row in registers.
enum { held = 4, short_row = 1024, words = short_row / 16 + 2, most_teams = 32 };

// A query's row of scores, or of weights. Whole numbers are of 32 bits: a kernel with few registers has more threads.
struct Row {
    const Draw &draw;
    const bool *visible;  // of its sequence, or null
    int keys, first, end, at, window, stride;  // it sees keys first … end − 1, by the rest of the pattern
    real factor;

    __device__ Row(const Pattern &pattern, const Draw &draw, unsigned i, unsigned rows_of_a_sequence, double factor)
        : draw(draw), keys(int(pattern.keys)), factor(real(factor)) {
        const whole t = i % unsigned(pattern.queries);
        visible = pattern.visible ? pattern.visible + i / rows_of_a_sequence * pattern.keys : nullptr;
        first = int(least(pattern.first_key(t), pattern.keys));
        end = int(pattern.end_key(t));
        at = int(t + pattern.offset);
        window = int(pattern.window);
        stride = int(pattern.stride);
    }

    __device__ real score(int j, real product) const {
        bool sees = first <= j && j < end && (!visible || visible[j]);
        if (stride > 0) {
            const int back = at - j;
            sees = sees && ((window > 0 && -window < back && back < window) || back % stride == 0);
        }
        return sees ? product * factor : -real(INFINITY);
    }
    __device__ static real shift(real top) { return top == -real(INFINITY) ? real(0) : top; }
    __device__ static real inverse(real total) { return total > 0 ? real(1) / total : total; }

    __device__ void write(int j, real weight, bool kept, real *weights, real *dropped) const {
        weights[j] = kept ? weight : -weight;
        if (dropped) dropped[j] = kept ? weight * draw.scale : real(0);
    }

    // A row that fits into the lanes' registers: it is read and written once.
    template <class Kept>
    __device__ void weigh_held(const Team &team, real *scores, real *dropped, const real *loaded, Kept kept) const {
        real weight[held], highest = -real(INFINITY), total = 0;
        UNROLLED
        for (int u = 0; u < held; ++u) {
            const int j = team.rank + u * team.size;
            weight[u] = j < keys ? score(j, loaded[u]) : -real(INFINITY);
            highest = Larger()(weight[u], highest);
        }
        const real top = shift(team.largest(highest));
        UNROLLED
        for (int u = 0; u < held; ++u) total += weight[u] = exp(weight[u] - top);
        const real factor = inverse(team.sum(total));
        UNROLLED
        for (int u = 0; u < held; ++u) {
            const int j = team.rank + u * team.size;
            if (j < keys) write(j, weight[u] * factor, kept(j), scores, dropped);
        }
    }

    // The same for a longer row, which is read twice: its largest score, and 1/Σ; then the weights of some keys.
    __device__ void measure(const Team &team, const real *scores, real &top, real &factor) const {
        real highest = -real(INFINITY), total = 0;
        ROLLED  // for the sake of registers
        for (int j = team.rank; j < keys; j += team.size) {
            const real s = score(j, scores[j]);
            if (s == -real(INFINITY)) continue;
            if (s > highest || s != s) {  // a NaN stays
                total = total * exp(highest - s) + real(1);
                highest = s;
            } else {
                total += exp(s - highest);
            }
        }
        top = shift(team.largest(highest));
        factor = inverse(team.sum(total * exp(highest - top)));
    }
    template <class Kept>
    __device__ void weigh(
        const Team &team, int from, int to, real top, real factor, real *scores, real *dropped, Kept kept
    ) const {
        ROLLED
        for (int j = from + team.rank; j < to; j += team.size)
            write(j, exp(score(j, scores[j]) - top) * factor, kept(j), scores, dropped);
    }
};

// Each block turns per_block rows of scores into signed weights, in place, and writes the weights after dropout (null:
// without dropout). Each warp computes a row of at most short_row keys; or, if per_block = 1, the whole block computes
// one row of any length. There are fewer than 2³¹ rows, and keys.
extern "C" __global__ void weigh_rows(
    real *scores, real *dropped, whole rows, whole keys, whole per_block, whole heads, whole queries, PATTERN,
    double factor, DRAW
) {
    __shared__ unsigned short bits[most_teams * words];
    const Draw draw = DRAWN;
    const Pattern pattern = PATTERNED(queries, keys);
    const Team team(per_block == 1 ? 0 : 32);
    const unsigned begin = unsigned(blockIdx.x * per_block), end = unsigned(least(rows, begin + per_block));
    const int count = int(keys);
    Factors factors;
    for (unsigned together = begin; together < end; together += team.teams) {  // rows, one for each team
        const unsigned i = together + team.team;
        const bool is_there = i < end;
        const Row row(pattern, draw, is_there ? i : begin, unsigned(heads * queries), factor);
        const whole pair = i * keys;  // the first of the row
        real *const to = dropped ? dropped + pair : nullptr;
        real top, share;
        if (!team.lanes) {
            row.measure(team, scores + pair, top, share);
            for (int from = 0; from < count; from += Factors::room) {
                const int stop = int(least(count, from + Factors::room));
                factors.draw(draw, pair + from, stop - from);
                row.weigh(team, from, stop, top, share, scores + pair, to, [&](int j) { return factors.of(pair + j) != real(0); });
            }
            continue;
        }
        real loaded[held];
        UNROLLED
        for (int u = 0; u < held; ++u) {
            const int j = team.rank + u * team.size;
            loaded[u] = is_there && j < count ? scores[pair + j] : real(0);
        }
        const whole first = (draw.start + together * keys) / 16;  // the bits of all these rows are drawn by all threads
        if (draw.threshold) {
            const whole behind = draw.start + least(end, together + unsigned(team.teams)) * keys;
            __syncthreads();  // all threads have read the bits of the rows before
            ROLLED
            for (whole k = threadIdx.x; first + k <= (behind - 1) / 16; k += blockDim.x) bits[k] = (unsigned short)draw.kept(word(first + k));
            __syncthreads();
        }
        if (!is_there) continue;
        const int lane = int(draw.start + pair - first * 16);
        const auto kept = [&](int j) {
            return draw.threshold == 0 || ((bits[(lane + j) / 16] >> ((lane + j) % 16)) & 1u);
        };
        if (count <= held * team.size) {
            row.weigh_held(team, scores + pair, to, loaded, kept);
        } else {
            row.measure(team, scores + pair, top, share);
            row.weigh(team, 0, count, top, share, scores + pair, to, kept);
        }
    }
}

// Turns the gradient of the weights after dropout into the gradient of the products Q Kᵀ, in place, and computes the
// weights after dropout again (null: without dropout). weights are the signed weights. Blocks as in weigh_rows.
extern "C" __global__ void weigh_rows_backward(
    const real *weights, real *gradients, real *dropped, whole rows, whole keys, whole per_block, double factor,
    double scale
) {
    const unsigned begin = unsigned(blockIdx.x * per_block), end = unsigned(least(rows, begin + per_block));
    const Team team(per_block == 1 ? 0 : 32);
    const real grow = real(scale), shrink = real(factor);
    const int count = int(keys);
    for (unsigned i = begin + team.team; i < end; i += team.teams) {
        const real *const weight = weights + i * keys;
        real *const gradient = gradients + i * keys, *const to = dropped ? dropped + i * keys : nullptr;
        const auto write = [&](int j, real w, real kept, real shared) {
            gradient[j] = abs(w) * (kept - shared) * shrink;
            if (to) to[j] = w < 0 ? real(0) : w * grow;
        };
        real shared = 0;
        if (count <= held * team.size) {  // a row that fits into registers
            real w[held], kept[held];
            UNROLLED
            for (int u = 0; u < held; ++u) {
                const int j = team.rank + u * team.size;
                w[u] = j < count ? weight[j] : real(0);
                kept[u] = j < count ? gradient[j] * grow : real(0);
            }
            UNROLLED
            for (int u = 0; u < held; ++u) {
                if (w[u] < 0) kept[u] = 0;
                shared += kept[u] * abs(w[u]);
            }
            shared = team.sum(shared);
            UNROLLED
            for (int u = 0; u < held; ++u) {
                const int j = team.rank + u * team.size;
                if (j < count) write(j, w[u], kept[u], shared);
            }
            continue;
        }
        for (int j = team.rank; j < count; j += team.size) {
            const real w = weight[j], kept = w < 0 ? real(0) : gradient[j] * grow;
            shared += kept * abs(w);
        }
        shared = team.sum(shared);
        for (int j = team.rank; j < count; j += team.size) {
            const real w = weight[j];
            write(j, w, w < 0 ? real(0) : gradient[j] * grow, shared);
        }
    }
}
