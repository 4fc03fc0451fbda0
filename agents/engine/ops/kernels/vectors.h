// As many floats at a time as a register of the processor holds, by the compiler's vector extensions, and conversions
// between float and the storage formats.
//
// Every multiply-add that must give the same bits in different places is spelled `fma`: the compiler may contract
// a * b + c or not, depending on what surrounds it.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
constexpr int LANES = 16;
#elif defined(__AVX2__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif
typedef float Lanes __attribute__((vector_size(LANES * 4)));
typedef int32_t IntLanes __attribute__((vector_size(LANES * 4)));
typedef uint32_t WordLanes __attribute__((vector_size(LANES * 4)));
typedef uint16_t ShortLanes __attribute__((vector_size(LANES * 2)));

struct bf16 {
    uint16_t bits;
};
struct fp16 {
    uint16_t bits;
};

static inline Lanes splat(float value) { return Lanes{} + value; }
static inline Lanes zeros() { return Lanes{}; }

static inline Lanes choose(IntLanes mask, Lanes yes, Lanes no) {
    return (Lanes)(((IntLanes)yes & mask) | ((IntLanes)no & ~mask));
}

static inline Lanes fma(Lanes a, Lanes b, Lanes c) {
#if defined(__AVX512F__)
    return (Lanes)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__) && defined(__FMA__)
    return (Lanes)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

static inline Lanes larger(Lanes a, Lanes b) { return choose(a > b, a, b); }

// Sum and maximum of the lanes, by halves: the order is fixed.
static inline float sum(Lanes v) {
    for (int width = LANES / 2; width; width /= 2)
        for (int i = 0; i < width; i++) v[i] += v[i + width];
    return v[0];
}

static inline float maximum(Lanes v) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps((__m512)v);
#else
    float most = v[0];
    for (int i = 1; i < LANES; i++) most = v[i] > most ? v[i] : most;
    return most;
#endif
}

// Loading and storing. Bfloat16 and float16 are rounded to nearest, ties to even.

static inline Lanes load(const float *from) {
    Lanes v;
    memcpy(&v, from, sizeof v);
    return v;
}

static inline Lanes load(const bf16 *from) {
    ShortLanes v;
    memcpy(&v, from, sizeof v);
    return (Lanes)(__builtin_convertvector(v, WordLanes) << 16);
}

static inline Lanes load(const fp16 *from) {
#if defined(__AVX512F__)
    return (Lanes)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
#elif defined(__AVX2__) && defined(__F16C__)
    return (Lanes)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
#else
    Lanes v;
    for (int i = 0; i < LANES; i++) {
        _Float16 one;
        memcpy(&one, from + i, sizeof one);
        v[i] = (float)one;
    }
    return v;
#endif
}

static inline void store(float *to, Lanes v) { memcpy(to, &v, sizeof v); }

static inline ShortLanes rounded_to_bf16(Lanes v) {
#if defined(__AVX512BF16__)
    return (ShortLanes)_mm512_cvtneps_pbh((__m512)v);  // Numbers below 2^-126 become zero.
#else
    WordLanes bits = (WordLanes)v;
    WordLanes up = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    WordLanes quiet = (bits >> 16) | 0x40u;
    WordLanes is_number = (WordLanes)(v == v);
    return __builtin_convertvector((up & is_number) | (quiet & ~is_number), ShortLanes);
#endif
}

static inline void store(bf16 *to, Lanes v) {
    ShortLanes bits = rounded_to_bf16(v);
    memcpy(to, &bits, sizeof bits);
}

static inline void store(fp16 *to, Lanes v) {
#if defined(__AVX512F__)
    _mm256_storeu_si256((__m256i *)to, _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__AVX2__) && defined(__F16C__)
    _mm_storeu_si128((__m128i *)to, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#else
    for (int i = 0; i < LANES; i++) {
        _Float16 one = (_Float16)v[i];
        memcpy(to + i, &one, sizeof one);
    }
#endif
}

// The first `count` lanes only; the others are zero, and are not written.
template <class T> static inline Lanes load_some(const T *from, int count) {
    T padded[LANES] = {};
    memcpy(padded, from, count * sizeof(T));
    return load(padded);
}

template <class T> static inline void store_some(T *to, Lanes v, int count) {
    T padded[LANES];
    store(padded, v);
    memcpy(to, padded, count * sizeof(T));
}

// 2^x within 2 units in the last place for x in [-126, 127]; 0 below, so also for minus infinity; above 127 it is
// 2^127 or so: callers stay below. Polynomial: Taylor's for 2^f with |f| <= 1/2, degree 7, whose remainder is under
// (ln 2 / 2)^8 / 8! = 5e-9.
static inline Lanes exp2_lanes(Lanes x) {
    IntLanes alive = x >= -126.0f;
    Lanes clamped = choose(alive, x, splat(-126.0f));
    clamped = choose(clamped < 127.0f, clamped, splat(127.0f));
    const Lanes magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer.
    Lanes shifted = clamped + magic;
    Lanes f = clamped - (shifted - magic);
    Lanes p = splat(1.52527338e-5f);
    p = fma(p, f, splat(1.54035304e-4f));
    p = fma(p, f, splat(1.33335581e-3f));
    p = fma(p, f, splat(9.61812911e-3f));
    p = fma(p, f, splat(5.55041087e-2f));
    p = fma(p, f, splat(2.40226507e-1f));
    p = fma(p, f, splat(6.93147181e-1f));
    p = fma(p, f, splat(1.0f));
    WordLanes exponent = (WordLanes)shifted << 23;  // The integer's low bits are the mantissa's.
    Lanes result = (Lanes)((WordLanes)p + exponent);
    return choose(alive, result, zeros());
}
