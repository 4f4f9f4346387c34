// A tile of attention in shared memory: some queries of one head against some of its keys. See attention_tiles.cu.

// The shared memory of a block for its matrices, in numbers, and the most rows of one matrix.
enum { TILE_ROOM = 46 * 1024 / sizeof(real), TILE_ROWS = 64 };

// Lanes that compute a row of a tile together: a whole warp would spend most of its time on shuffles.
enum { TEAM = 8 };

// Rows with the stride `apart`, an odd number, so that a column is spread over all banks.
struct Matrix {
    real *at;
    int apart;
    __device__ real &operator()(int i, int j) const { return at[i * apart + j]; }
};

// Allocates the shared memory, one matrix after the other.
struct Room {
    real *at;
    __device__ real *take(whole count) {
        at += count;
        return at - count;
    }
    __device__ Matrix matrix(whole rows, whole width) { return Matrix{take(rows * (width | 1)), int(width | 1)}; }
};

// Which pairs of a tile dropout keeps. The threads of the block draw the bits together, row by row.
struct TileBits {
    unsigned short *kept = nullptr;
    whole first = 0, keys = 0;  // the number of the tile's first pair; the difference from row to row
    int words = 0;              // for each row, whose bits may begin in the middle of a word
    bool all = true;

    __device__ void draw(const Draw &draw, whole element, whole apart, int rows, int cols) {
        __shared__ unsigned short shared[TILE_ROWS * (TILE_ROWS / 16 + 2)];
        kept = shared;
        all = draw.threshold == 0;
        if (all) return;
        first = draw.start + element;
        keys = apart;
        words = cols / 16 + 2;
        for (Walk at(rows, words); at.here(); at.next())
            kept[at.row * words + at.col] = (unsigned short)draw.kept(word((first + at.row * keys) / 16 + at.col));
    }

    __device__ bool keep(int i, int j) const {
        if (all) return true;
        const int lane = int((first + i * keys) % 16) + j;
        return (kept[i * words + lane / 16] >> (lane % 16)) & 1u;
    }
};

// Copies rows first … first + count − 1 of a head, with the stride `row`, to a matrix; back, times a factor a row.
__device__ inline void load(const real *head, whole row, whole first, int count, whole width, Matrix to) {
    enum { at_a_time = 4 };  // numbers that a thread asks for before it waits for the first
    for (Walk at(count, int(width)); at.here();) {
        real loaded[at_a_time];
        int i[at_a_time], j[at_a_time];
        UNROLLED
        for (int u = 0; u < at_a_time; ++u) {
            i[u] = at.row;
            j[u] = at.col;
            loaded[u] = at.here() ? head[(first + at.row) * row + at.col] : real(0);
            at.next();
        }
        UNROLLED
        for (int u = 0; u < at_a_time; ++u)
            if (i[u] < count) to(i[u], j[u]) = loaded[u];
    }
}
__device__ inline void store(
    Matrix from, const real *factor, real *head, whole row, whole first, int count, whole width
) {
    for (Walk at(count, int(width)); at.here(); at.next())
        head[(first + at.row) * row + at.col] = from(at.row, at.col) * (factor ? factor[at.row] : real(1));
}
__device__ inline void clear(Matrix to, int count, whole width) {
    for (Walk at(count, int(width)); at.here(); at.next()) to(at.row, at.col) = 0;
}

// One number for each of `count` rows.
__device__ inline void load_row(const real *from, int count, real *to) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) to[i] = from[i];
}

struct Tile {
    const Pattern &pattern;
    const Draw &draw;
    whole head, b;  // the index of the head in (B, H), and of its sequence
    int width;
    real factor;
    whole t0 = 0, j0 = 0;  // the tile's first query and key
    int rows = 0, cols = 0;
    TileBits bits;

    __device__ Tile(const Pattern &pattern, const Draw &draw, whole head, whole heads, whole width, double factor)
        : pattern(pattern), draw(draw), head(head), b(head / heads), width(int(width)), factor(real(factor)) {}

    __device__ void queries(whole first, whole most_rows) {
        t0 = first;
        rows = int(least(most_rows, pattern.queries - first));
    }
    __device__ void keys(whole first, whole most_cols) {
        j0 = first;
        cols = int(least(most_cols, pattern.keys - first));
    }
    __device__ whole first_row() const { return head * pattern.queries + t0; }  // among all rows of weights (B·H·T, S)
    __device__ void draw_bits() { bits.draw(draw, first_row() * pattern.keys + j0, pattern.keys, rows, cols); }

    // w = Q Kᵀ of the tile.
    __device__ void multiply(Matrix q, Matrix k, Matrix w) const {
        product(rows, cols, width, [&](int i, int d) { return q(i, d); }, [&](int d, int j) { return k(j, d); },
            [&](int i, int j, real sum) { w(i, j) = sum; });
    }

    // The score of a product q·k: q·k/√D, or −∞ where the key is hidden.
    __device__ real score(int i, int j, real product) const {
        return pattern.sees(b, t0 + i, j0 + j) ? product * factor : -real(INFINITY);
    }

    // Computes the weights again: w, negative where dropped. It has barriers, so all threads must call it.
    __device__ void signed_weights(Matrix q, Matrix k, const real *top, const real *inverse, Matrix w) const {
        multiply(q, k, w);
        __syncthreads();
        for (Walk at(rows, cols); at.here(); at.next()) {
            const real weight = exp(score(at.row, at.col, w(at.row, at.col)) - top[at.row]) * inverse[at.row];
            w(at.row, at.col) = bits.keep(at.row, at.col) ? weight : -weight;
        }
        __syncthreads();
    }

    // The gradient of a weight from that of the weight after dropout; w is the signed weight.
    __device__ real gradient(real w, real ddropped) const { return w < 0 ? real(0) : ddropped * draw.scale; }

    // The gradient of a product q·k; shared is δ.
    __device__ real dproduct(real w, real ddropped, real shared) const {
        return abs(w) * (gradient(w, ddropped) - shared) * factor;
    }

    // w = the gradients of all products q·k, from the signed weights.
    __device__ void dproducts(Matrix dout, Matrix v, const real *shared, Matrix w) const {
        product(rows, cols, width, [&](int i, int d) { return dout(i, d); }, [&](int d, int j) { return v(j, d); },
            [&](int i, int j, real sum) { w(i, j) = dproduct(w(i, j), sum, shared[i]); });
    }

    // Calls write(j, d, Σ_i (weight i, j after dropout)·x(i, d)), for the gradient of the values.
    template <class Write>
    __device__ void to_values(Matrix w, Matrix x, Write write) const {
        product(cols, width, rows, [&](int j, int i) { return w(i, j) < 0 ? real(0) : w(i, j); },
            [&](int i, int d) { return x(i, d); }, [&](int j, int d, real sum) { write(j, d, sum * draw.scale); });
    }
    // Call write(j, d, Σ_i w(i, j)·x(i, d)), and write(i, d, Σ_j w(i, j)·x(j, d)).
    template <class Write>
    __device__ void to_keys(Matrix w, Matrix x, Write write) const {
        product(cols, width, rows, [&](int j, int i) { return w(i, j); }, [&](int i, int d) { return x(i, d); }, write);
    }
    template <class Write>
    __device__ void to_queries(Matrix w, Matrix x, Write write) const {
        product(rows, width, cols, [&](int i, int j) { return w(i, j); }, [&](int j, int d) { return x(j, d); }, write);
    }
};
