// LayerNorm over rows of C numbers, alone or after a residual sum.
//
//     total = x + Drop(f + b)      x̂ = (total − μ)·r      y = γ·x̂ + β
//     dx = r·(g − mean g − x̂·mean(g·x̂)) + dsum    with g = γ·dy, dsum the gradient of total      df = Drop(dx)
//
// x̂ and r are kept, as in functional/layer_norm.py; dropout's bits are drawn again in backward. A row that fits stays
// in shared memory between the passes over it, so that each array is read or written once. A short row is a warp's, so
// that no warp waits for another.

#include "common.cuh"
#include "reduce.cuh"
#include "philox.cuh"
#include "team.cuh"

// The numbers of a row that a lane keeps in registers, and the most warps of a block.
enum { held = 64 / sizeof(real), most_teams = 32 };

// Dropout's bits of a row that a team draws together: a warp's row of at most `held` numbers a lane, or up to `room`
// numbers of a block's.
struct TeamBits {
    enum { words = 32 * held / 16 + 2, room = 8192, size = most_teams * words > room / 16 + 2 ? most_teams * words : room / 16 + 2 };
    unsigned short *mine;
    whole first;

    __device__ void draw(const Team &team, const Draw &draw, whole from, int count) {
        __shared__ unsigned short shared[size];
        mine = shared + team.team * words;
        first = (draw.start + from) / 16 * 16 - draw.start;
        team.sync();  // others may still read the bits before
        ROLLED
        for (int k = team.rank; k < int(from - first + count + 15) / 16; k += team.size)
            mine[k] = (unsigned short)draw.kept(word((draw.start + first) / 16 + k));
        team.sync();
    }
    __device__ real apply(real value, whole e, const Draw &draw) const {
        return (mine[(e - first) / 16] >> ((e - first) % 16)) & 1u ? value * draw.scale : real(0);
    }
};

// A warp computes a short row, a block a long one. f may be null: there is no sum. bias may be null: f has it, as
// linear.py says. total may be null: it is not written.
extern "C" __global__ __launch_bounds__(512, 1) void norm_rows(
    const real *__restrict__ x, const real *__restrict__ f, const real *__restrict__ bias,
    const real *__restrict__ gamma, const real *__restrict__ beta, real *__restrict__ total, real *__restrict__ y,
    real *__restrict__ x_hat, real *r, whole rows, whole width, double eps, DRAW
) {
    enum { room = 16384 / sizeof(real) };
    __shared__ real nearby[room];
    const Team team(width <= held * lanes_for_registers() ? 32 : 0);
    const Draw draw = DRAWN;
    const bool drops = f && draw.threshold;
    TeamBits bits;
    for (whole line = whole(blockIdx.x) * team.teams + team.team; line < rows; line += whole(gridDim.x) * team.teams) {
        const whole at = line * width;
        real *const row = width * team.teams <= room ? nearby + team.team * width : x_hat + at;
        real sum = 0, square = 0;
        for (whole base = 0; base < width; base += TeamBits::room) {
            const whole end = base + TeamBits::room < width ? base + TeamBits::room : width;
            if (drops) bits.draw(team, draw, at + base, int(end - base));
            for (whole j = base + team.rank; j < end; j += team.size) {
                real value = f ? f[at + j] : real(0);
                if (bias) value += bias[j];
                if (drops) value = bits.apply(value, at + j, draw);
                value = f ? x[at + j] + value : x[at + j];
                if (total) total[at + j] = value;
                row[j] = value;
                sum += value;
            }
        }
        const real mean = team.sum(sum) / real(width);
        for (whole j = team.rank; j < width; j += team.size) {
            const real centred = row[j] - mean;
            row[j] = centred;
            square += centred * centred;
        }
        const real inverse = real(1) / sqrt(team.sum(square) / real(width) + real(eps));
        for (whole j = team.rank; j < width; j += team.size) {
            const real value = row[j] * inverse;
            x_hat[at + j] = value;
            y[at + j] = gamma[j] * value + beta[j];
        }
        if (team.rank == 0) r[line] = inverse;
    }
}

// A warp computes every so many-th row, of at most `held` numbers a lane, and reads it once; the warps' parts of dγ and
// dβ are added one after the other to sums (2, C), in shared memory.
template <int most>
__device__ inline void backward_by_warps(
    const real *__restrict__ dy, const real *__restrict__ x_hat, const real *__restrict__ r,
    const real *__restrict__ gamma, const real *__restrict__ dsum, real *__restrict__ dx, real *__restrict__ df,
    real *sums, whole rows, int width, const Draw &draw
) {
    const Team team(32);
    TeamBits bits;
    real dgamma[most] = {}, dbeta[most] = {};
    ROLLED
    for (whole row = whole(blockIdx.x) * team.teams + team.team; row < rows; row += whole(gridDim.x) * team.teams) {
        const whole at = row * width;
        real dnormed[most], normed[most], along_one = 0, along_x_hat = 0;
        UNROLLED
        for (int u = 0; u < most; ++u) {
            const int j = team.rank + u * LANES(team);
            dnormed[u] = j < width ? dy[at + j] : real(0);
            normed[u] = j < width ? x_hat[at + j] : real(0);
        }
        if (df) bits.draw(team, draw, at, width);
        UNROLLED
        for (int u = 0; u < most; ++u) {
            dgamma[u] += dnormed[u] * normed[u];
            dbeta[u] += dnormed[u];
            const int j = team.rank + u * LANES(team);
            dnormed[u] *= j < width ? gamma[j] : real(0);
            along_one += dnormed[u];
            along_x_hat += dnormed[u] * normed[u];
        }
        along_one = team.sum(along_one) / real(width);
        along_x_hat = team.sum(along_x_hat) / real(width);
        UNROLLED
        for (int u = 0; u < most; ++u) {
            const int j = team.rank + u * LANES(team);
            if (j >= width) continue;
            real value = r[row] * (dnormed[u] - along_one - normed[u] * along_x_hat);
            if (dsum) value += dsum[at + j];
            dx[at + j] = value;
            if (df) df[at + j] = bits.apply(value, at + j, draw);
        }
    }
    ROLLED
    for (int turn = 0; turn < team.teams; ++turn) {
        if (turn == team.team) {
            UNROLLED
            for (int u = 0; u < most; ++u) {
                const int j = team.rank + u * LANES(team);
                if (j >= width) continue;
                sums[j] = turn ? sums[j] + dgamma[u] : dgamma[u];
                sums[width + j] = turn ? sums[width + j] + dbeta[u] : dbeta[u];
            }
        }
        __syncthreads();
    }
}

// Each block computes some rows, and writes its part of dγ and dβ to partials (gridDim, 2, C); sums.cu adds
// the parts. dsum may be null. df may be null: without dropout, or without a sum.
extern "C" __global__ __launch_bounds__(512) void norm_rows_backward(
    const real *__restrict__ dy, const real *__restrict__ x_hat, const real *__restrict__ r,
    const real *__restrict__ gamma, const real *__restrict__ dsum, real *__restrict__ dx, real *__restrict__ df,
    real *__restrict__ partials, whole rows, whole width, DRAW
) {
    enum { room = 1024 };
    __shared__ real nearby[2 * room];
    real *const kept = partials + whole(blockIdx.x) * 2 * width;
    real *const dgamma = width <= room ? nearby : kept, *const dbeta = dgamma + width;
    const Draw draw = DRAWN;
    const int lanes = lanes_for_registers();
    if (width <= 4 * lanes) {
        backward_by_warps<4>(dy, x_hat, r, gamma, dsum, dx, df, nearby, rows, int(width), draw);
    } else if (width <= held * lanes) {
        backward_by_warps<held>(dy, x_hat, r, gamma, dsum, dx, df, nearby, rows, int(width), draw);
    } else {
        for (whole j = threadIdx.x; j < width; j += blockDim.x) dgamma[j] = dbeta[j] = 0;
        Factors factors;
        for (whole row = blockIdx.x; row < rows; row += gridDim.x) {
            const whole at = row * width;
            real along_one = 0, along_x_hat = 0;
            for (whole j = threadIdx.x; j < width; j += blockDim.x) {  // the same thread for column j in every row
                const real g = dy[at + j] * gamma[j];
                along_one += g;
                along_x_hat += g * x_hat[at + j];
                dgamma[j] += dy[at + j] * x_hat[at + j];
                dbeta[j] += dy[at + j];
            }
            along_one = block_sum(along_one) / real(width);
            along_x_hat = block_sum(along_x_hat) / real(width);
            for (whole base = 0; base < width; base += Factors::room) {
                const whole end = base + Factors::room < width ? base + Factors::room : width;
                if (df) factors.draw(draw, at + base, end - base);
                for (whole j = base + threadIdx.x; j < end; j += blockDim.x) {
                    real value = r[row] * (dy[at + j] * gamma[j] - along_one - x_hat[at + j] * along_x_hat);
                    if (dsum) value += dsum[at + j];
                    dx[at + j] = value;
                    if (df) df[at + j] = factors.apply(value, at + j);
                }
            }
        }
    }
    if (dgamma == nearby)
        for (whole j = threadIdx.x; j < width; j += blockDim.x) {
            kept[j] = dgamma[j];
            kept[width + j] = dbeta[j];
        }
}
