/* SPDX-License-Identifier: Apache-2.0
 *
 * emulated_math.h - atomics, memory fences and single-number functions of CUDA; see emulated.h
 *
 * Threads run in turns, so that an ordinary read and write is atomic. Only those that CUDA has for
 * whole numbers: sums of floats by atomics would depend on timing. */
#ifndef UW_EMULATED_MATH_H
#define UW_EMULATED_MATH_H

template <typename T> static inline T uw_emulated_old(T *at)
{
    uw_emulated_atomic(at);
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}

#define UW_EMULATED_ATOMIC(name, type, result)                                                    \
    static inline type name(type *at, type with)                                                  \
    {                                                                                             \
        type old = uw_emulated_old(at);                                                           \
        __atomic_store_n(at, result, __ATOMIC_RELAXED);                                           \
        return old;                                                                               \
    }
#define UW_EMULATED_ATOMICS(type)                                                                 \
    UW_EMULATED_ATOMIC(atomicAdd, type, static_cast<type>(old + with))                            \
    UW_EMULATED_ATOMIC(atomicMax, type, old > with ? old : with)                                  \
    UW_EMULATED_ATOMIC(atomicMin, type, old < with ? old : with)                                  \
    UW_EMULATED_ATOMIC(atomicExch, type, with)                                                    \
    UW_EMULATED_ATOMIC(atomicAnd, type, old &with)                                                \
    UW_EMULATED_ATOMIC(atomicOr, type, old | with)                                                \
    static inline type atomicCAS(type *at, type is, type with)                                    \
    {                                                                                             \
        type old = uw_emulated_old(at);                                                           \
        __atomic_store_n(at, old == is ? with : old, __ATOMIC_RELAXED);                           \
        return old;                                                                               \
    }
UW_EMULATED_ATOMICS(int)
UW_EMULATED_ATOMICS(unsigned)
UW_EMULATED_ATOMICS(unsigned long long)

/* 0 .. with, then 0 again */
static inline unsigned atomicInc(unsigned *at, unsigned with)
{
    unsigned old = uw_emulated_old(at);
    __atomic_store_n(at, old >= with ? 0u : old + 1u, __ATOMIC_RELAXED);
    return old;
}

static inline void __threadfence(void)
{
    uw_emulated_fence();
}

static inline void __threadfence_block(void)
{
}

static inline void __threadfence_system(void)
{
    uw_emulated_fence();
}

template <typename T> static inline T __ldg(const T *at)
{
    return *at;
}

template <typename T> static inline T __ldcs(const T *at)
{
    return *at;
}

template <typename T> static inline T __ldcg(const T *at)
{
    return *at;
}

template <typename T> static inline void __stcs(T *at, T value)
{
    *at = value;
}

template <typename T> static inline void __stwb(T *at, T value)
{
    *at = value;
}

template <typename To, typename From> static inline To uw_emulated_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "the same size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

#define UW_EMULATED_BITS(name, to, from)                                                          \
    static inline to name(from x)                                                                 \
    {                                                                                             \
        return uw_emulated_bits<to>(x);                                                           \
    }
UW_EMULATED_BITS(__float_as_uint, unsigned, float)
UW_EMULATED_BITS(__float_as_int, int, float)
UW_EMULATED_BITS(__uint_as_float, float, unsigned)
UW_EMULATED_BITS(__int_as_float, float, int)
UW_EMULATED_BITS(__double_as_longlong, long long, double)
UW_EMULATED_BITS(__longlong_as_double, double, long long)

/* One rounding each, never fused: the compiler does not know what was done to the result. */
template <typename T> static inline T uw_emulated_rounded(T result)
{
#ifdef __FMA__
    __asm__("" : "+x"(result));
#endif
    return result;
}

#define UW_EMULATED_OF_TWO(name, type, result)                                                    \
    static inline type name(type x, type y)                                                       \
    {                                                                                             \
        return result;                                                                            \
    }
#define UW_EMULATED_ROUNDED(name, type, result)                                                   \
    UW_EMULATED_OF_TWO(name, type, uw_emulated_rounded(result))
UW_EMULATED_ROUNDED(__fadd_rn, float, x + y)
UW_EMULATED_ROUNDED(__fsub_rn, float, x - y)
UW_EMULATED_ROUNDED(__fmul_rn, float, x *y)
UW_EMULATED_ROUNDED(__fdiv_rn, float, x / y)
UW_EMULATED_ROUNDED(__dadd_rn, double, x + y)
UW_EMULATED_ROUNDED(__dsub_rn, double, x - y)
UW_EMULATED_ROUNDED(__dmul_rn, double, x *y)
UW_EMULATED_ROUNDED(__ddiv_rn, double, x / y)

static inline float __fmaf_rn(float x, float y, float z)
{
    return fmaf(x, y, z);
}

static inline float __fsqrt_rn(float x)
{
    return sqrtf(x);
}

static inline float rsqrtf(float x)
{
    return static_cast<float>(1.0 / sqrt(static_cast<double>(x)));
}

static inline double rsqrt(double x)
{
    return 1.0 / sqrt(x);
}

/* min and max of CUDA: of two numbers of one kind; of floats the one that is a number. */
#define UW_EMULATED_MIN_MAX(type)                                                                 \
    UW_EMULATED_OF_TWO(min, type, y < x ? y : x)                                                 \
    UW_EMULATED_OF_TWO(max, type, x < y ? y : x)
UW_EMULATED_MIN_MAX(int)
UW_EMULATED_MIN_MAX(unsigned)
UW_EMULATED_MIN_MAX(long)
UW_EMULATED_MIN_MAX(unsigned long)
UW_EMULATED_MIN_MAX(long long)
UW_EMULATED_MIN_MAX(unsigned long long)
UW_EMULATED_OF_TWO(min, float, fminf(x, y))
UW_EMULATED_OF_TWO(max, float, fmaxf(x, y))
UW_EMULATED_OF_TWO(min, double, fmin(x, y))
UW_EMULATED_OF_TWO(max, double, fmax(x, y))

static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}

static inline int __popcll(unsigned long long x)
{
    return __builtin_popcountll(x);
}

static inline int __clz(int x)
{
    return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x));
}

static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}

static inline unsigned __umulhi(unsigned x, unsigned y)
{
    return static_cast<unsigned>(static_cast<uint64_t>(x) * y >> 32);
}

static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y)
{
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(x) * y >> 64);
}

static inline unsigned __brev(unsigned x)
{
    unsigned out = 0;
    for (int i = 0; i < 32; i++) {
        out = out << 1 | (x >> i & 1u);
    }
    return out;
}

#endif
