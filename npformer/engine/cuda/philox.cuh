// Dropout bits: Philox4x64-10, the numbers of functional/philox.py. A block of bits holds 16 numbers of 16 bits;
// number n of a draw is lane n % 16 of block n / 16.

// The parameters of a draw, in the order of Drawn in device_runtime.py, and the Draw made from them.
#define DRAW whole seed, whole site, const word *step_at, whole step, whole micro, whole start, whole threshold, double scale
#define DRAWN Draw{word(seed), word(site), step_at ? *step_at : word(step), word(micro), start, unsigned(threshold), real(scale)}

struct Draw {
    word seed, site, step, micro;
    whole start;         // the number of the array's first element
    unsigned threshold;  // numbers below it drop; 0: nothing is dropped
    real scale;          // of the elements that are kept

    // The decisions of one block of bits: bit i is set if lane i is kept.
    __device__ unsigned kept(word block) const {
        const word m0 = 0xD2E7470EE14C6C93ULL, m1 = 0xCA5A826395121157ULL;
        word c0 = block, c1 = step, c2 = micro, c3 = 0, k0 = seed, k1 = site;
        for (int round = 0; round < 10; ++round) {
            const word high0 = __umul64hi(m0, c0), low0 = m0 * c0, high1 = __umul64hi(m1, c2), low1 = m1 * c2;
            c0 = high1 ^ c1 ^ k0;
            c1 = low1;
            c2 = high0 ^ c3 ^ k1;
            c3 = low0;
            k0 += 0x9E3779B97F4A7C15ULL;
            k1 += 0xBB67AE8584CAA73BULL;
        }
        const word words[4] = {c0, c1, c2, c3};
        unsigned bits = 0;
        for (int i = 0; i < 16; ++i) bits |= unsigned(((words[i / 4] >> (16 * (i % 4))) & 0xffffu) >= threshold) << i;
        return bits;
    }
};

// Dropout's factors, 0 or the scale, for the elements of a stretch (a row, a tile). The threads of a block draw the
// bits of up to `room` elements together, one block of bits for 16 elements, into shared memory.
struct Factors {
    enum { room = 8192 };
    unsigned short *kept = nullptr;
    whole first = 0;
    bool all = true;
    real scale = 1;

    // For elements e … e + count − 1 of the array, count <= room. All threads of the block must call it.
    __device__ void draw(const Draw &draw, whole e, whole count) {
        __shared__ unsigned short shared[room / 16 + 1];
        kept = shared;
        all = draw.threshold == 0;
        scale = draw.scale;
        if (all) return;
        const whole block = (draw.start + e) / 16, last = (draw.start + e + count - 1) / 16;
        first = block * 16 - draw.start;
        __syncthreads();  // other threads may still read the stretch before
        for (whole i = threadIdx.x; block + i <= last; i += blockDim.x) kept[i] = (unsigned short)draw.kept(word(block + i));
        __syncthreads();
    }

    __device__ real of(whole e) const {
        if (all) return real(1);
        return (kept[(e - first) / 16] >> ((e - first) % 16)) & 1u ? scale : real(0);
    }

    // value·factor; a dropped value becomes 0, even NaN or infinity.
    __device__ real apply(real value, whole e) const {
        const real factor = of(e);
        return factor == real(0) ? real(0) : value * factor;
    }
};
