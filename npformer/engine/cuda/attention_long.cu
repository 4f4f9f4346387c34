// Backward of attention for heads of more than one tile. One kernel computes dq, from the queries of a tile and all
// keys; another computes dk and dv, from the keys of a tile and all queries. attention_tiles.cu derives both.

#include "common.cuh"
#include "reduce.cuh"
#include "philox.cuh"
#include "attention.cuh"
#include "attention_tiles.cuh"

// One block for each head and each most_rows of its queries. It also writes delta (B, H, T), which attend_dkeys reads.
extern "C" __global__ void attend_dqueries(
    HEADS(dout), HEADS(out), HEADS(q), HEADS(k), HEADS(v), HEADS_OUT(dq), const real *top, const real *inverse,
    real *delta, whole heads, whole queries, whole keys, whole width, whole most_rows, whole most_cols, double factor,
    PATTERN, DRAW
) {
    __shared__ real numbers[TILE_ROOM];
    const Draw draw = DRAWN;
    const Pattern pattern = PATTERNED(queries, keys);
    const whole tiles = (queries + most_rows - 1) / most_rows, head = blockIdx.x / tiles, h = head % heads;
    Tile tile(pattern, draw, head, heads, width, factor);
    tile.queries(blockIdx.x % tiles * most_rows, most_rows);
    Room room{numbers};
    const Matrix query = room.matrix(most_rows, width), g = room.matrix(most_rows, width);
    const Matrix sums = room.matrix(most_rows, width), w = room.matrix(most_rows, most_cols);
    const Matrix key = room.matrix(most_cols, width), value = room.matrix(most_cols, width);
    real *const m = room.take(most_rows), *const inv = room.take(most_rows), *const shared = room.take(most_rows);
    load(ROWS(q, tile.b, h), tile.t0, tile.rows, width, query);
    load(ROWS(dout, tile.b, h), tile.t0, tile.rows, width, g);
    load(ROWS(out, tile.b, h), tile.t0, tile.rows, width, sums);
    load_row(top + tile.first_row(), tile.rows, m);
    load_row(inverse + tile.first_row(), tile.rows, inv);
    __syncthreads();
    const Team team(TEAM);
    for (int i = team.team; i < tile.rows; i += team.teams) {
        real sum = 0;
        for (int d = team.rank; d < tile.width; d += team.size) sum += g(i, d) * sums(i, d);
        sum = team.sum(sum);
        if (team.rank == 0) shared[i] = delta[tile.first_row() + i] = sum;
    }
    __syncthreads();
    clear(sums, tile.rows, width);
    const whole end = pattern.end_key(tile.t0 + tile.rows - 1);
    for (whole j0 = pattern.first_key(tile.t0); j0 < end; j0 += most_cols) {
        __syncthreads();
        tile.keys(j0, most_cols);
        load(ROWS(k, tile.b, h), j0, tile.cols, width, key);
        load(ROWS(v, tile.b, h), j0, tile.cols, width, value);
        tile.draw_bits();
        __syncthreads();
        tile.signed_weights(query, key, m, inv, w);
        tile.dproducts(g, value, shared, w);
        __syncthreads();
        tile.to_queries(w, key, [&](int i, int d, real sum) { sums(i, d) += sum; });
    }
    __syncthreads();
    store(sums, nullptr, ROWS(dq, tile.b, h), tile.t0, tile.rows, width);
}

// One block for each head and each most_cols of its keys.
extern "C" __global__ void attend_dkeys(
    HEADS(dout), HEADS(q), HEADS(k), HEADS(v), HEADS_OUT(dk), HEADS_OUT(dv), const real *top, const real *inverse,
    const real *delta, whole heads, whole queries, whole keys, whole width, whole most_rows, whole most_cols,
    double factor, PATTERN, DRAW
) {
    __shared__ real numbers[TILE_ROOM];
    const Draw draw = DRAWN;
    const Pattern pattern = PATTERNED(queries, keys);
    const whole tiles = (keys + most_cols - 1) / most_cols, head = blockIdx.x / tiles, h = head % heads;
    Tile tile(pattern, draw, head, heads, width, factor);
    tile.keys(blockIdx.x % tiles * most_cols, most_cols);
    Room room{numbers};
    const Matrix key = room.matrix(most_cols, width), value = room.matrix(most_cols, width);
    const Matrix dkey = room.matrix(most_cols, width), dvalue = room.matrix(most_cols, width);
    const Matrix query = room.matrix(most_rows, width), g = room.matrix(most_rows, width);
    const Matrix w = room.matrix(most_rows, most_cols);
    real *const m = room.take(most_rows), *const inv = room.take(most_rows), *const shared = room.take(most_rows);
    load(ROWS(k, tile.b, h), tile.j0, tile.cols, width, key);
    load(ROWS(v, tile.b, h), tile.j0, tile.cols, width, value);
    clear(dkey, tile.cols, width);
    clear(dvalue, tile.cols, width);
    const whole end = pattern.end_query(tile.j0 + tile.cols - 1);
    for (whole t0 = pattern.first_query(tile.j0); t0 < end; t0 += most_rows) {
        __syncthreads();
        tile.queries(t0, most_rows);
        load(ROWS(q, tile.b, h), t0, tile.rows, width, query);
        load(ROWS(dout, tile.b, h), t0, tile.rows, width, g);
        load_row(top + tile.first_row(), tile.rows, m);
        load_row(inverse + tile.first_row(), tile.rows, inv);
        load_row(delta + tile.first_row(), tile.rows, shared);
        tile.draw_bits();
        __syncthreads();
        tile.signed_weights(query, key, m, inv, w);
        tile.to_values(w, g, [&](int j, int d, real sum) { dvalue(j, d) += sum; });
        __syncthreads();
        tile.dproducts(g, value, shared, w);
        __syncthreads();
        tile.to_keys(w, query, [&](int j, int d, real sum) { dkey(j, d) += sum; });
    }
    __syncthreads();
    store(dkey, nullptr, ROWS(dk, tile.b, h), tile.j0, tile.cols, width);
    store(dvalue, nullptr, ROWS(dv, tile.b, h), tile.j0, tile.cols, width);
}
