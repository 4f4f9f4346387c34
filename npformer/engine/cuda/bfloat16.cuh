// A bfloat16 number is stored as its 16 bits, the upper half of a float's.

__device__ inline unsigned short to_bfloat16(real value) {
    union { float number; unsigned bits; } as;
    as.number = float(value);
    if (as.number != as.number) return 0x7fffu;
    return (unsigned short)((as.bits + 0x7fffu + ((as.bits >> 16) & 1u)) >> 16);
}
