// Loops that a compiler for GPUs unrolls wholly, so that arrays of their steps are registers, or not at all, for the
// sake of registers.

#ifdef __CUDACC__
#define UNROLLED _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
#else
#define UNROLLED
#define ROLLED
#endif
