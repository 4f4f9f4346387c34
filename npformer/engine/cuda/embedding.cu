// Token embedding: y_n = scale·table[token_n], and in backward each row's sum over the tokens that used it.
//
//     dtable_v += scale·Σ_{n: token_n = v} dy_n
//
// Several tokens may use the same row, and its sum must not depend on which thread is first. So the tokens are sorted,
// by value and then by index, and the gradients of a row are added in that order. Sorted, token n has the index
//
//     #{m: token_m < token_n} + #{m < n: token_m = token_n}
//
// which is counted by N² comparisons, all independent. The sorted tokens are divided into chunks. A row
// whose tokens are all in one chunk is finished by its block. A row that crosses the edge of a chunk is left in pieces,
// at most one at the head of a chunk and one at its tail; a second kernel adds a tail and the heads that follow it. So
// a row of many tokens is summed by many blocks, even if half of all tokens are padding.

#include "common.cuh"

enum { together = 32, slices = 8 };  // tokens that a block sorts, and threads that count for each of them

// A token outside the table has no row: its output is NaN, so that it is noticed, and backward skips it.
extern "C" __global__ void take_rows(
    const whole *tokens, const real *__restrict__ table, real *__restrict__ y, whole height, whole width, double scale
) {
    const whole token = tokens[blockIdx.x], at = blockIdx.x * width;
    const bool inside = token >= 0 && token < height;
    const real not_a_number = real(INFINITY) - real(INFINITY);
    for (whole j = threadIdx.x; j < width; j += blockDim.x)
        y[at + j] = inside ? real(scale) * table[token * width + j] : not_a_number;
}

// order[p] = n and sorted[p] = token_n for the p-th token of the sorted order. One block for each `together` tokens.
extern "C" __global__ void sort_tokens(const whole *__restrict__ tokens, whole *order, whole *sorted, whole count) {
    __shared__ whole before[slices * together];
    const whole first = whole(blockIdx.x) * together, slice = (count + slices - 1) / slices;
    for (int cell = threadIdx.x; cell < slices * together; cell += blockDim.x) {
        const whole n = first + cell % together, start = cell / together * slice;
        const whole end = start + slice < count ? start + slice : count, token = n < count ? tokens[n] : 0;
        int smaller = 0;
        for (whole m = start; m < end; ++m) smaller += tokens[m] < token + (m < n);
        before[cell] = smaller;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < together && first + i < count; i += blockDim.x) {
        whole place = 0;
        for (int part = 0; part < slices; ++part) place += before[part * together + i];
        order[place] = first + i;
        sorted[place] = tokens[first + i];
    }
}

// One block for each chunk of `length` sorted tokens. edges (chunks, 2, C): the pieces at the chunk's head and tail.
extern "C" __global__ void add_chunks(
    const real *__restrict__ dy, const whole *__restrict__ order, const whole *__restrict__ sorted, real *table,
    real *edges, whole count, whole length, whole height, whole width, double scale
) {
    const whole first = blockIdx.x * length, end = first + length < count ? first + length : count;
    for (whole start = first, stop; start < end; start = stop) {
        const whole token = sorted[start];
        for (stop = start + 1; stop < end && sorted[stop] == token;) ++stop;
        if (token < 0 || token >= height) continue;
        const bool head = start == first && first > 0 && sorted[first - 1] == token;
        const bool tail = stop == end && end < count && sorted[end] == token;
        real *const place = head || tail ? edges + (2 * whole(blockIdx.x) + !head) * width : table + token * width;
        for (whole j = threadIdx.x; j < width; j += blockDim.x) {
            real sum = 0;
            for (whole p = start; p < stop; ++p) sum += dy[order[p] * width + j];
            place[j] = head || tail ? sum : place[j] + real(scale) * sum;
        }
    }
}

// Rows that cross the edges of chunks. One block for each chunk: the block in which a row begins adds its pieces.
extern "C" __global__ void add_edges(
    const real *__restrict__ edges, const whole *__restrict__ sorted, real *__restrict__ table, whole count, whole length,
    whole height, whole width, double scale
) {
    const whole first = blockIdx.x * length, next = first + length;
    if (next >= count || sorted[next - 1] != sorted[next]) return;  // no row continues after this chunk
    const whole token = sorted[next];
    if (token < 0 || token >= height || (first > 0 && sorted[first - 1] == token)) return;  // it began earlier
    for (whole j = threadIdx.x; j < width; j += blockDim.x) {
        real sum = edges[(2 * whole(blockIdx.x) + 1) * width + j];
        whole chunk = blockIdx.x + 1;
        for (; chunk * length < count && sorted[chunk * length] == token; ++chunk) sum += edges[2 * chunk * width + j];
        table[token * width + j] += real(scale) * sum;
    }
}
