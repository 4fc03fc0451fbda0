// Norms, rotary positions with the cache write, gating, and the greedy choice: each one pass over its rows.
//
// Guarantee: a row's result depends on that row alone, with any number of threads. Everything is computed in float32
// and rounded to the storage format once, at the end.

#include <omp.h>

#include <cmath>
#include <limits>

#include "vectors.h"

namespace {

constexpr int64_t SERIAL_NUMBERS = 1 << 16;  // Under this, waking other threads costs more than it saves.
constexpr int MOST_HEAD_DIM = 1024;

inline int team(int64_t numbers, int64_t rows, int threads) {
    return numbers < SERIAL_NUMBERS || rows < 2 ? 1 : threads;
}

template <class T> inline Lanes load_at(const T *from, int64_t i, int64_t n) {
    return i + LANES <= n ? load(from + i) : load_some(from + i, n - i);
}

template <class T> inline void store_at(T *to, Lanes v, int64_t i, int64_t n) {
    if (i + LANES <= n)
        store(to + i, v);
    else
        store_some(to + i, v, n - i);
}

// 1 / sqrt(mean of squares + epsilon), from the lanes' sums of squares.
inline float norm_factor(Lanes one, Lanes other, int64_t n, float epsilon) {
    return 1.0f / std::sqrt(sum(one + other) / (float)n + epsilon);
}

template <class T> inline float norm_factor_of(const T *row, int64_t n, float epsilon) {
    Lanes one = zeros(), other = zeros();
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        const Lanes a = load(row + i), b = load(row + i + LANES);
        one = fma(a, a, one);
        other = fma(b, b, other);
    }
    for (; i < n; i += LANES) {
        const Lanes a = load_at(row, i, n);
        one = fma(a, a, one);
    }
    return norm_factor(one, other, n, epsilon);
}

template <class T> inline void norm_row(const T *row, const float *weight, T *out, int64_t n, float epsilon) {
    const float factor = norm_factor_of(row, n, epsilon);
    for (int64_t i = 0; i < n; i += LANES)
        store_at(out, load_at(row, i, n) * factor * load_at(weight, i, n), i, n);
}

template <class T>
void rms_norm(const T *rows, const float *weight, T *out, int64_t count, int64_t n, float epsilon, int threads) {
    const int used = team(count * n, count, threads);
#pragma omp parallel for num_threads(used) if (used > 1)
    for (int64_t r = 0; r < count; r++) norm_row(rows + r * n, weight, out + r * n, n, epsilon);
}

// residual becomes the sum, rows its norm.
template <class T>
void add_rms_norm(T *rows, T *residual, const float *weight, int64_t count, int64_t n, float epsilon, int threads) {
    const int used = team(count * n, count, threads);
#pragma omp parallel for num_threads(used) if (used > 1)
    for (int64_t r = 0; r < count; r++) {
        T *row = rows + r * n, *total = residual + r * n;
        for (int64_t i = 0; i < n; i += LANES) store_at(total, load_at(row, i, n) + load_at(total, i, n), i, n);
        norm_row(total, weight, row, n, epsilon);
    }
}

// x holds the head's d numbers and room for half more: the first half is repeated behind the second, so that the
// turned head is x from its middle on.
template <class T>
inline void rotate_head(const T *from, const float *norm, float epsilon, const T *cos, const T *sin, T *to, int64_t d) {
    float x[MOST_HEAD_DIM + MOST_HEAD_DIM / 2 + 2 * LANES];
    const int64_t half = d / 2;
    const float factor = norm ? norm_factor_of(from, d, epsilon) : 1.0f;
    for (int64_t i = 0; i < d; i += LANES) {
        const Lanes v = load_at(from, i, d);
        store(x + i, norm ? v * factor * load_at(norm, i, d) : v);
    }
    for (int64_t i = 0; i < half; i += LANES) {
        Lanes v;
        memcpy(&v, x + i, sizeof v);
        memcpy(x + d + i, &v, sizeof v);
    }
    for (int64_t i = 0; i < d; i += LANES) {
        const Lanes turned = load(x + half + i) * load_at(sin, i, d);
        store_at(to, fma(load(x + i), load_at(cos, i, d), turned), i, d);
    }
}

struct Heads {
    int64_t heads, kv_heads, dim;
};

template <class T>
void rotate_and_store(const T *qkv, const float *query_norm, const float *key_norm, float epsilon, const T *cos,
                      const T *sin, const int64_t *slots, T *pages, T *queries, int64_t rows, const Heads &shape,
                      int threads) {
    const int64_t d = shape.dim, side = shape.kv_heads * d, width = shape.heads * d + 2 * side;
    const int used = team(rows * width, rows, threads);
#pragma omp parallel for num_threads(used) if (used > 1)
    for (int64_t r = 0; r < rows; r++) {
        const T *row = qkv + r * width, *c = cos + r * d, *s = sin + r * d;
        for (int64_t h = 0; h < shape.heads; h++)
            rotate_head(row + h * d, query_norm, epsilon, c, s, queries + (r * shape.heads + h) * d, d);
        T *key = pages + slots[r] * 2 * side;
        for (int64_t h = 0; h < shape.kv_heads; h++)
            rotate_head(row + (shape.heads + h) * d, key_norm, epsilon, c, s, key + h * d, d);
        memcpy((void *)(key + side), row + shape.heads * d + side, side * sizeof(T));
    }
}

inline Lanes sigmoid(Lanes x) {
    // Far below zero 2^-x is held at 2^127, whose inverse is still a number: the gate is then 0 to any format's rounding.
    return 1.0f / (1.0f + exp2_lanes(x * -1.44269504f));
}

inline Lanes silu(Lanes x) { return x * sigmoid(x); }

// The tanh form of GELU (Hendrycks and Gimpel 2016): x / 2 * (1 + tanh(u)) = x * sigmoid(2 u).
inline Lanes gelu_tanh(Lanes x) {
    const Lanes cubic = fma(x * x * x, splat(0.044715f), x);
    return x * sigmoid(cubic * (2.0f * 0.79788456f));
}

template <class T> void gate(const T *gate_up, T *out, int64_t rows, int64_t n, int gelu, int threads) {
    const int used = team(rows * n, rows, threads);
#pragma omp parallel for num_threads(used) if (used > 1)
    for (int64_t r = 0; r < rows; r++) {
        const T *gates = gate_up + r * 2 * n, *up = gates + n;
        T *to = out + r * n;
        for (int64_t i = 0; i < n; i += LANES) {
            const Lanes g = load_at(gates, i, n);
            store_at(to, (gelu ? gelu_tanh(g) : silu(g)) * load_at(up, i, n), i, n);
        }
    }
}

// The first place of the largest number; a NaN is never larger. All NaN: 0.
template <class T> int64_t first_largest(const T *row, int64_t n) {
    constexpr int64_t PIECE = 2048;
    const float lowest = -std::numeric_limits<float>::infinity();
    float best = lowest;
    int64_t best_piece = 0;
    for (int64_t start = 0; start < n; start += PIECE) {
        const int64_t past = start + PIECE < n ? start + PIECE : n;
        Lanes a = splat(lowest), b = a, c = a, e = a;
        int64_t i = start;
        for (; i + 4 * LANES <= past; i += 4 * LANES) {
            a = larger(load(row + i), a);
            b = larger(load(row + i + LANES), b);
            c = larger(load(row + i + 2 * LANES), c);
            e = larger(load(row + i + 3 * LANES), e);
        }
        for (; i + LANES <= past; i += LANES) a = larger(load(row + i), a);
        float most = maximum(larger(larger(a, b), larger(c, e)));
        for (; i < past; i++) {
            const float one = load_some(row + i, 1)[0];
            if (one > most) most = one;
        }
        if (most > best) {
            best = most;
            best_piece = start;
        }
    }
    for (int64_t i = best_piece; i < n; i++)
        if (load_some(row + i, 1)[0] == best) return i;
    return 0;
}

template <class T> void largest(const T *rows, int64_t *out, int64_t count, int64_t n, int64_t stride, int threads) {
    const int used = team(count * n, count, threads);
#pragma omp parallel for num_threads(used) if (used > 1)
    for (int64_t r = 0; r < count; r++) out[r] = first_largest(rows + r * stride, n);
}

}  // namespace

#define EXPORT(SUFFIX, T)                                                                                             \
    extern "C" void rms_norm_##SUFFIX(const void *rows, const float *weight, void *out, int64_t count, int64_t n,     \
                                      float epsilon, int32_t threads) {                                               \
        rms_norm((const T *)rows, weight, (T *)out, count, n, epsilon, threads);                                      \
    }                                                                                                                 \
    extern "C" void add_rms_norm_##SUFFIX(void *rows, void *residual, const float *weight, int64_t count, int64_t n,  \
                                          float epsilon, int32_t threads) {                                           \
        add_rms_norm((T *)rows, (T *)residual, weight, count, n, epsilon, threads);                                   \
    }                                                                                                                 \
    /* Returns 0, or -1 when a slot is outside the pages; nothing has been written then. */                           \
    extern "C" int32_t rotate_and_store_##SUFFIX(                                                                     \
        const void *qkv, const float *query_norm, const float *key_norm, float epsilon, const void *cos,              \
        const void *sin, const int64_t *slots, void *pages, void *queries, int64_t rows, int64_t heads,               \
        int64_t kv_heads, int64_t dim, int64_t slot_count, int32_t threads) {                                         \
        for (int64_t r = 0; r < rows; r++)                                                                            \
            if (slots[r] < 0 || slots[r] >= slot_count) return -1;                                                    \
        rotate_and_store((const T *)qkv, query_norm, key_norm, epsilon, (const T *)cos, (const T *)sin, slots,        \
                         (T *)pages, (T *)queries, rows, Heads{heads, kv_heads, dim}, threads);           \
        return 0;                                                                                                     \
    }                                                                                                                 \
    extern "C" void gate_##SUFFIX(const void *gate_up, void *out, int64_t rows, int64_t n, int32_t gelu,              \
                                  int32_t threads) {                                                                  \
        gate((const T *)gate_up, (T *)out, rows, n, gelu, threads);                                                   \
    }                                                                                                                 \
    extern "C" void largest_##SUFFIX(const void *rows, int64_t *out, int64_t count, int64_t n, int64_t stride,        \
                                     int32_t threads) {                                                               \
        largest((const T *)rows, out, count, n, stride, threads);                                                     \
    }
EXPORT(f32, float)
EXPORT(bf16, bf16)
EXPORT(f16, fp16)
