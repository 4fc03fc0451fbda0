// Causal attention of a mixed batch over the paged key/value cache: decode rows and prompt pieces alike.
//
// Guarantee: a query's result has the same bits whatever is computed beside it, however its sequence was cut into
// steps, and with any number of threads, in every format. The arithmetic of a query depends on its own position alone:
// - keys lie in blocks of KEY_BLOCK and chunks of CHUNK, both counted from position 0 of the sequence;
// - within a chunk, an online softmax takes the key blocks in order (Milakov and Gimelshein 2018; FlashAttention,
//   Dao et al. 2022); a key that the query does not see has weight 0, which changes no bit of any sum;
// - chunks are merged in order, whether one thread computed them or many (Flash-Decoding's split, with a fixed order);
// - a product of a query and a key is one chain of multiply-adds and one tree of sums, the same in every tile.
//
// Queries that share keys are computed together: a tile is up to TILE (row, head) pairs of one sequence and one
// key/value head, so that the heads of a group, and the rows of a prompt, share each load of a key or value.

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "vectors.h"

#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__AVX512BW__)
#define HAS_TILES 1
#include "amx_tiles.h"
#else
#define HAS_TILES 0
#endif

namespace {

constexpr int KEY_BLOCK = 64;
constexpr int CHUNK = 512;
constexpr int TILE = 32;
constexpr int AMX = 16;  // Rows of one of AMX's tiles, and its columns of four bytes.
constexpr float NOTHING = -std::numeric_limits<float>::infinity();
constexpr double SERIAL_WORK = 1 << 18;  // Multiply-adds under which waking other threads costs more than it saves.

// One piece of machine code for every caller, so that the compiler rounds alike for all.
#if defined(__clang__)
#define ONE_COPY __attribute__((noinline))
#else
#define ONE_COPY __attribute__((noinline, noclone))
#endif

// A step's arrangement, as native_ops.py lays it out in an array of int64.
struct Plan {
    int64_t spans, span_count, table, table_size, window, heads, kv_heads, head_dim, block_size;
};

// Neighbouring rows of one sequence. Its block at place p is table[table_offset + p].
struct Span {
    int32_t row, count, position, table_offset;
};

template <class T> struct Call {
    const T *queries;
    int64_t row_stride, head_stride;
    const T *pages;
    T *out;
    const int32_t *table;
    int heads, kv_heads, head_dim, padded_dim, group, block_size, window;
    bool tiles;   // Whether products are AMX's.
    float scale;  // Times log2(e): the softmax counts in powers of two.
};

struct Task {
    Span span;
    int kv_head, first, count;        // Queries [first, first + count) of the span's count * group.
    int64_t chunk_begin, chunk_end;
    double cost;
};

// How queries, keys and weights meet in one format. A padded head dimension is a multiple of `unit`.
template <class T> struct Format {
    using Query = float;
    using Weight = float;
    static constexpr int unit = LANES;
    static constexpr bool pairs = false;
};

#if defined(__AVX512BF16__) && defined(__AVX512BW__)
// Products of pairs in bfloat16, sums in float32 (VDPBF16PS).
template <> struct Format<bf16> {
    using Query = bf16;
    using Weight = bf16;
    static constexpr int unit = 2 * LANES;
    static constexpr bool pairs = true;
};
#endif

template <class T> struct Scratch {
    std::vector<typename Format<T>::Query> queries;  // (TILE, padded_dim)
    std::vector<T> keys, values;                     // (KEY_BLOCK, padded_dim), where the cache's rows need padding.
    std::vector<float> part, total;                  // (TILE, padded_dim)
    std::vector<T> turned, packed, pairs;            // For AMX: see `turn_queries`, `tile_of_keys`, `pair_values`.
    alignas(64) float scores[TILE * KEY_BLOCK];
    alignas(64) float turned_scores[AMX * KEY_BLOCK];
    alignas(64) typename Format<T>::Weight weights[TILE * KEY_BLOCK];
    float part_max[TILE], part_sum[TILE], total_max[TILE], total_sum[TILE];

    void fit(int padded_dim) {
        const size_t wanted = (size_t)TILE * padded_dim;
        if (part.size() >= wanted) return;
        queries.resize(wanted);
        part.resize(wanted);
        total.resize(wanted);
        keys.resize((size_t)KEY_BLOCK * padded_dim);
        values.resize((size_t)KEY_BLOCK * padded_dim);
#if HAS_TILES
        if constexpr (Format<T>::pairs) {
            turned.resize(wanted);
            packed.resize((size_t)AMX * padded_dim);
            pairs.resize((size_t)KEY_BLOCK * padded_dim);
        }
#endif
    }
};

// The sums of the lanes of as many vectors as one has lanes, as one vector; each sum is the same tree of additions.
#define SHUFFLE __builtin_shufflevector
inline Lanes sums(const Lanes *a) {
#if defined(__AVX512F__)
    Lanes t[8], u[4], w[2];
    for (int i = 0; i < 8; i++)
        t[i] = SHUFFLE(a[2 * i], a[2 * i + 1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29) +
               SHUFFLE(a[2 * i], a[2 * i + 1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
    for (int i = 0; i < 4; i++)
        u[i] = SHUFFLE(t[2 * i], t[2 * i + 1], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
               SHUFFLE(t[2 * i], t[2 * i + 1], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    for (int i = 0; i < 2; i++)
        w[i] = SHUFFLE(u[2 * i], u[2 * i + 1], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
               SHUFFLE(u[2 * i], u[2 * i + 1], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    return SHUFFLE(w[0], w[1], 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
           SHUFFLE(w[0], w[1], 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
#elif defined(__AVX2__)
    Lanes t[4], u[2];
    for (int i = 0; i < 4; i++)
        t[i] = SHUFFLE(a[2 * i], a[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13) +
               SHUFFLE(a[2 * i], a[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    for (int i = 0; i < 2; i++)
        u[i] = SHUFFLE(t[2 * i], t[2 * i + 1], 0, 1, 8, 9, 4, 5, 12, 13) +
               SHUFFLE(t[2 * i], t[2 * i + 1], 2, 3, 10, 11, 6, 7, 14, 15);
    return SHUFFLE(u[0], u[1], 0, 1, 2, 3, 8, 9, 10, 11) + SHUFFLE(u[0], u[1], 4, 5, 6, 7, 12, 13, 14, 15);
#else
    Lanes t[2];
    for (int i = 0; i < 2; i++)
        t[i] = SHUFFLE(a[2 * i], a[2 * i + 1], 0, 4, 1, 5) + SHUFFLE(a[2 * i], a[2 * i + 1], 2, 6, 3, 7);
    return SHUFFLE(t[0], t[1], 0, 1, 4, 5) + SHUFFLE(t[0], t[1], 2, 3, 6, 7);
#endif
}

// scores[q][k] for Q queries and the keys [begin, end), both multiples of LANES / Q.
template <int Q, class T>
inline void score(const typename Format<T>::Query *queries, int dim, const T *const *keys, int begin, int end,
                  float *scores) {
    constexpr int K = LANES / Q;
    for (int k0 = begin; k0 < end; k0 += K) {
        Lanes sum_of[LANES];
        for (int i = 0; i < LANES; i++) sum_of[i] = zeros();
        if constexpr (Format<T>::pairs) {
#if defined(__AVX512BF16__)
            for (int d = 0; d < dim; d += 2 * LANES) {
                __m512bh query[Q];
                for (int q = 0; q < Q; q++) query[q] = (__m512bh)_mm512_loadu_si512(queries + (int64_t)q * dim + d);
                for (int k = 0; k < K; k++) {
                    const __m512bh key = (__m512bh)_mm512_loadu_si512(keys[k0 + k] + d);
                    for (int q = 0; q < Q; q++)
                        sum_of[q * K + k] = (Lanes)_mm512_dpbf16_ps((__m512)sum_of[q * K + k], query[q], key);
                }
            }
#endif
        } else {
            for (int d = 0; d < dim; d += LANES) {
                Lanes query[Q];
                for (int q = 0; q < Q; q++) query[q] = load(queries + (int64_t)q * dim + d);
                for (int k = 0; k < K; k++) {
                    const Lanes key = load(keys[k0 + k] + d);
                    for (int q = 0; q < Q; q++) sum_of[q * K + k] = fma(query[q], key, sum_of[q * K + k]);
                }
            }
        }
        const Lanes all = sums(sum_of);
        for (int q = 0; q < Q; q++) memcpy(scores + q * KEY_BLOCK + k0, (const float *)&all + q * K, K * sizeof(float));
    }
}

inline void store_weight(float *to, Lanes &v) { store(to, v); }
inline void store_weight(bf16 *to, Lanes &v) {
    store(to, v);
    v = load(to);  // The sum takes the weights as they are used.
}

// One step of the online softmax: scores become weights; keys outside [begin, end) are not seen. Returns the factor for
// what the query has gathered so far.
template <class W>
ONE_COPY float soften(const float *scores, int begin, int end, float scale, float &most, float &total,
                                       W *weights) {
    static constexpr int32_t counting[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    constexpr int parts = KEY_BLOCK / LANES;
    IntLanes places;
    memcpy(&places, counting, sizeof places);
    Lanes s[parts];
    for (int i = 0; i < parts; i++) {
        const IntLanes place = places + i * LANES;
        s[i] = choose((place >= begin) & (place < end), load(scores + i * LANES), splat(NOTHING));
    }
    Lanes highest = s[0];
    for (int i = 1; i < parts; i++) highest = larger(s[i], highest);
    const float here = maximum(highest);
    const float now = here > most ? here : most;
    const float base = now == NOTHING ? 0.0f : now;
    for (int i = 0; i < parts; i++) {
        s[i] = exp2_lanes((s[i] - base) * scale);
        store_weight(weights + i * LANES, s[i]);
    }
    const float factor = most == now ? 1.0f : exp2_lanes(splat((most - base) * scale))[0];
    const float kept = total * factor;
    for (int width = parts / 2; width; width /= 2)
        for (int i = 0; i < width; i++) s[i] += s[i + width];
    total = kept + sum(s[0]);
    most = now;
    return factor;
}

#if defined(__AVX512BF16__) && defined(__AVX512BW__)
// Two rows of 32 values as 32 pairs: those of the first and of the second sixteen places.
struct Pairing {
    alignas(64) static constexpr uint16_t low[32] = {0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                     8,  40, 9,  41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
    const __m512i low_places = _mm512_load_si512(low);
    const __m512i high_places = _mm512_add_epi16(low_places, _mm512_set1_epi16(16));

    __m512i first(__m512i one, __m512i other) const { return _mm512_permutex2var_epi16(one, low_places, other); }
    __m512i second(__m512i one, __m512i other) const { return _mm512_permutex2var_epi16(one, high_places, other); }
};
#endif

// gathered[q] += sum over keys of weight * value, keys in order, for Q queries.
template <int Q, int S, class T>
inline void gather_slices(const typename Format<T>::Weight *weights, const T *const *values, int begin, int end, int d,
                          int dim, float *gathered) {
    Lanes held[Q][S];
    for (int q = 0; q < Q; q++)
        for (int s = 0; s < S; s++) held[q][s] = load(gathered + (int64_t)q * dim + d + s * LANES);
    if constexpr (Format<T>::pairs) {
#if defined(__AVX512BF16__) && defined(__AVX512BW__)
        const Pairing pairing;
        for (int k = begin; k < end; k += 2) {
            __m512bh pair[S];
            for (int s = 0; s < S; s += 2) {
                const __m512i one = _mm512_loadu_si512(values[k] + d + s * LANES);
                const __m512i other = _mm512_loadu_si512(values[k + 1] + d + s * LANES);
                pair[s] = (__m512bh)pairing.first(one, other);
                pair[s + 1] = (__m512bh)pairing.second(one, other);
            }
            for (int q = 0; q < Q; q++) {
                int32_t both;
                memcpy(&both, weights + q * KEY_BLOCK + k, sizeof both);
                const __m512bh weight = (__m512bh)_mm512_set1_epi32(both);
                for (int s = 0; s < S; s++) held[q][s] = (Lanes)_mm512_dpbf16_ps((__m512)held[q][s], weight, pair[s]);
            }
        }
#endif
    } else {
        for (int k = begin; k < end; k++) {
            Lanes value[S];
            for (int s = 0; s < S; s++) value[s] = load(values[k] + d + s * LANES);
            for (int q = 0; q < Q; q++) {
                const Lanes weight = splat(weights[q * KEY_BLOCK + k]);
                for (int s = 0; s < S; s++) held[q][s] = fma(weight, value[s], held[q][s]);
            }
        }
    }
    for (int q = 0; q < Q; q++)
        for (int s = 0; s < S; s++) store(gathered + (int64_t)q * dim + d + s * LANES, held[q][s]);
}

template <int Q, class T>
inline void gather(const typename Format<T>::Weight *weights, const T *const *values, int begin, int end, int dim,
                   float *gathered) {
    constexpr int S = LANES / Q;
    int d = 0;
    for (; d + S * LANES <= dim; d += S * LANES) gather_slices<Q, S>(weights, values, begin, end, d, dim, gathered);
    for (; d + 4 * LANES <= dim; d += 4 * LANES) gather_slices<Q, 4>(weights, values, begin, end, d, dim, gathered);
    for (; d + 2 * LANES <= dim; d += 2 * LANES) gather_slices<Q, 2>(weights, values, begin, end, d, dim, gathered);
    if constexpr (!Format<T>::pairs)
        for (; d < dim; d += LANES) gather_slices<Q, 1>(weights, values, begin, end, d, dim, gathered);
}

// total = total and part together, two softmax sums of one query over different keys.
ONE_COPY void merge(float *total, float &total_max, float &total_sum, const float *part,
                    float part_max, float part_sum, float scale, int dim) {
    const float now = std::max(total_max, part_max);
    const float base = now == NOTHING ? 0.0f : now;
    const Lanes keep = exp2_lanes(splat((total_max - base) * scale)), add = exp2_lanes(splat((part_max - base) * scale));
    for (int d = 0; d < dim; d += LANES) store(total + d, fma(load(part + d), add, load(total + d) * keep));
    total_sum = fma(splat(part_sum), add, splat(total_sum) * keep)[0];
    total_max = now;
}

#if HAS_TILES
// to[c][r] = from[r][c] for 16 x 16 words; distances in words.
inline void turn(const void *from, int64_t from_row, void *to, int64_t to_row) {
    __m512i a[16], b[16];
    for (int i = 0; i < 16; i++) a[i] = _mm512_loadu_si512((const uint32_t *)from + i * from_row);
    for (int i = 0; i < 16; i += 2) {
        b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 2; j++) {
            a[i + 2 * j] = _mm512_unpacklo_epi64(b[i + j], b[i + 2 + j]);
            a[i + 2 * j + 1] = _mm512_unpackhi_epi64(b[i + j], b[i + 2 + j]);
        }
    for (int i = 0; i < 16; i += 8)
        for (int j = 0; j < 4; j++) {
            b[i + j] = _mm512_shuffle_i32x4(a[i + j], a[i + 4 + j], 0x88);
            b[i + 4 + j] = _mm512_shuffle_i32x4(a[i + j], a[i + 4 + j], 0xdd);
        }
    for (int j = 0; j < 8; j++) {
        a[j] = _mm512_shuffle_i32x4(b[j], b[8 + j], 0x88);
        a[8 + j] = _mm512_shuffle_i32x4(b[j], b[8 + j], 0xdd);
    }
    for (int i = 0; i < 16; i++) _mm512_storeu_si512((uint32_t *)to + i * to_row, a[i]);
}
#endif

template <class T> class Tile {
    const Call<T> &call;
    const Task &task;
    Scratch<T> &own;

    int position(int query) const { return task.span.position + (task.first + query) / call.group; }
    int start(int query) const { return call.window ? std::max(0, position(query) - call.window + 1) : 0; }

    // The cache rows of a key block: outside [begin, end) a row that is real stands in, and gets no weight.
    void find(int64_t block, int begin, int end, const T **keys, const T **values) const {
        const int64_t head_stride = call.head_dim, side = (int64_t)call.kv_heads * head_stride;
        for (int k = begin; k < end; k++) {
            const int64_t place = block * KEY_BLOCK + k;
            const int64_t id = call.table[task.span.table_offset + place / call.block_size];
            const T *row = call.pages + (id * call.block_size + place % call.block_size) * 2 * side;
            keys[k] = row + task.kv_head * head_stride;
            values[k] = keys[k] + side;
        }
        // A decoding row reads its whole context once, mostly from memory and in pieces too short for the processor to
        // foresee: asking for the whole key block first hides much of the wait.
        const int64_t bytes = call.head_dim * sizeof(T);
        for (int k = begin; k < end; k++)
            for (int64_t line = 0; line < bytes; line += 64) __builtin_prefetch((const char *)keys[k] + line);
        for (int k = begin; k < end; k++)
            for (int64_t line = 0; line < bytes; line += 64) __builtin_prefetch((const char *)values[k] + line);
        if (call.padded_dim != call.head_dim)
            for (int k = begin; k < end; k++) {
                // The padding was zeroed by `prepare`; only the head's own numbers change.
                T *key = own.keys.data() + k * call.padded_dim, *value = own.values.data() + k * call.padded_dim;
                memcpy(key, keys[k], call.head_dim * sizeof(T));
                memcpy(value, values[k], call.head_dim * sizeof(T));
                keys[k] = key;
                values[k] = value;
            }
        for (int k = 0; k < begin; k++) keys[k] = keys[begin], values[k] = values[begin];
        for (int k = end; k < KEY_BLOCK; k++) keys[k] = keys[end - 1], values[k] = values[end - 1];
    }

    template <int Q> void take(int query, int64_t block, const T *const *keys, const T *const *values) {
        const int origin = block * KEY_BLOCK, dim = call.padded_dim;
        const int begin = std::max(0, start(query) - origin);
        const int end = std::min(KEY_BLOCK, position(query + Q - 1) - origin + 1);
        if (begin >= end) return;  // None of these queries sees any of these keys.
        score<Q, T>(own.queries.data() + (int64_t)query * dim, dim, keys, begin / LANES * LANES,
                    (end + LANES - 1) / LANES * LANES, own.scores);
        for (int q = 0; q < Q; q++) soften_query(query + q, q, origin);
        gather<Q, T>(own.weights, values, begin / 2 * 2, (end + 1) / 2 * 2, dim,
                     own.part.data() + (int64_t)query * dim);
    }

#if HAS_TILES
    // The queries by sixteens, each as (padded_dim / 2, 16, 2): pairs of dimensions, as a tile wants its right side.
    void turn_queries() {
        const int64_t dim = call.padded_dim, padded = (task.count + AMX - 1) / AMX * AMX;
        std::fill(own.queries.begin() + task.count * dim, own.queries.begin() + padded * dim, T{});
        for (int query = 0; query < task.count; query += AMX)
            for (int64_t d = 0; d < dim; d += 2 * AMX)
                turn(own.queries.data() + query * dim + d, dim / 2, own.turned.data() + query * dim + d * AMX, AMX);
        std::fill(std::begin(own.weights), std::end(own.weights), T{});
    }

    // The values of the keys [32 * first, 32 * past) as (pairs of keys, padded_dim, 2).
    void pair_values(const T *const *values, int first, int past) {
        const Pairing pairing;
        const int dim = call.padded_dim;
        for (int k = 2 * AMX * first; k < 2 * AMX * past; k += 2) {
            T *to = own.pairs.data() + (int64_t)k * dim;
            for (int d = 0; d < dim; d += 2 * LANES) {
                const __m512i one = _mm512_loadu_si512(values[k] + d), other = _mm512_loadu_si512(values[k + 1] + d);
                _mm512_storeu_si512(to + 2 * d, pairing.first(one, other));
                _mm512_storeu_si512(to + 2 * d + 32, pairing.second(one, other));
            }
        }
    }

    // Where sixteen keys lie, equally far from each other: in the cache, where they do, else copied. Returns how far.
    int64_t tile_of_keys(const T *const *keys, const T *&first) {
        const int64_t apart = keys[1] - keys[0];
        bool even = apart > 0;
        for (int k = 1; k < AMX; k++) even &= keys[k] - keys[k - 1] == apart;
        first = keys[0];
        if (even) return apart * sizeof(T);
        for (int k = 0; k < AMX; k++)
            memcpy(own.packed.data() + k * call.padded_dim, keys[k], call.padded_dim * sizeof(T));
        first = own.packed.data();
        return call.padded_dim * sizeof(T);
    }

    // scores[q][k] for all the queries and the keys [k0, k0 + 16): keys times turned queries, turned back.
    void score_tiles(const T *const *keys, int k0) {
        const T *from;
        const int64_t apart = tile_of_keys(keys + k0, from), dim = call.padded_dim;
        tiles_and_memory_agree();
        const T *turned = own.turned.data();
        // Two chains of sums for each sixteen queries, by turns through the dimensions.
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        const bool both = task.count > AMX;
        for (int64_t d = 0; d < dim; d += 4 * AMX) {
            _tile_loadd(4, from + d, apart);
            _tile_loadd(6, turned + d * AMX, 64);
            _tile_dpbf16ps(0, 4, 6);
            if (both) {
                _tile_loadd(7, turned + (dim + d) * AMX, 64);
                _tile_dpbf16ps(2, 4, 7);
            }
            if (d + 2 * AMX == dim) break;
            _tile_loadd(5, from + d + 2 * AMX, apart);
            _tile_loadd(6, turned + (d + 2 * AMX) * AMX, 64);
            _tile_dpbf16ps(1, 5, 6);
            if (both) {
                _tile_loadd(7, turned + (dim + d + 2 * AMX) * AMX, 64);
                _tile_dpbf16ps(3, 5, 7);
            }
        }
        float *to = own.turned_scores;
        _tile_stored(0, to, 64);
        _tile_stored(1, to + AMX * AMX, 64);
        _tile_stored(2, to + 2 * AMX * AMX, 64);
        _tile_stored(3, to + 3 * AMX * AMX, 64);
        tiles_and_memory_agree();
        for (int group = 0; group <= both; group++, to += 2 * AMX * AMX) {
            for (int k = 0; k < AMX * AMX; k += LANES) store(to + k, load(to + k) + load(to + AMX * AMX + k));
            turn(to, AMX, own.scores + group * AMX * KEY_BLOCK + k0, KEY_BLOCK);
        }
    }

    // gathered[q] += sum over keys [32 * first, 32 * past) of weight * value, for sixteen queries.
    void gather_tiles(int query, int first, int past) {
        const int64_t dim = call.padded_dim;
        float *gathered = own.part.data() + query * dim;
        const T *weights = own.weights + query * KEY_BLOCK;
        const int64_t apart = dim * sizeof(float), weights_apart = KEY_BLOCK * sizeof(T);
        tiles_and_memory_agree();
        int64_t d = 0;
        for (; d + 4 * AMX <= dim; d += 4 * AMX) {
            _tile_loadd(0, gathered + d, apart);
            _tile_loadd(1, gathered + d + AMX, apart);
            _tile_loadd(2, gathered + d + 2 * AMX, apart);
            _tile_loadd(3, gathered + d + 3 * AMX, apart);
            for (int step = first; step < past; step++) {
                const T *pairs = own.pairs.data() + step * 2 * AMX * dim + 2 * d;
                _tile_loadd(4, weights + step * 2 * AMX, weights_apart);
                _tile_loadd(6, pairs, apart);
                _tile_dpbf16ps(0, 4, 6);
                _tile_loadd(7, pairs + 2 * AMX, apart);
                _tile_dpbf16ps(1, 4, 7);
                _tile_loadd(6, pairs + 4 * AMX, apart);
                _tile_dpbf16ps(2, 4, 6);
                _tile_loadd(7, pairs + 6 * AMX, apart);
                _tile_dpbf16ps(3, 4, 7);
            }
            _tile_stored(0, gathered + d, apart);
            _tile_stored(1, gathered + d + AMX, apart);
            _tile_stored(2, gathered + d + 2 * AMX, apart);
            _tile_stored(3, gathered + d + 3 * AMX, apart);
        }
        for (; d < dim; d += AMX) {
            _tile_loadd(0, gathered + d, apart);
            for (int step = first; step < past; step++) {
                _tile_loadd(4, weights + step * 2 * AMX, weights_apart);
                _tile_loadd(6, own.pairs.data() + step * 2 * AMX * dim + 2 * d, apart);
                _tile_dpbf16ps(0, 4, 6);
            }
            _tile_stored(0, gathered + d, apart);
        }
        tiles_and_memory_agree();
    }

    // All the queries of the task and the keys [begin, end) of a block. What a query does not see gets no weight.
    void take_tiles(int64_t block, int begin, int end, const T *const *keys, const T *const *values) {
        const int first = begin / (2 * AMX), past = (end + 2 * AMX - 1) / (2 * AMX);
        for (int k0 = begin / AMX * AMX; k0 < end; k0 += AMX) score_tiles(keys, k0);
        pair_values(values, first, past);
        for (int query = 0; query < task.count; query++) soften_query(query, query, block * KEY_BLOCK);
        for (int query = 0; query < task.count; query += AMX) gather_tiles(query, first, past);
    }
#endif

    // Scores at `place` become weights there; what the query has gathered so far is scaled accordingly.
    void soften_query(int query, int place, int origin) {
        const int dim = call.padded_dim;
        const float factor =
            soften(own.scores + place * KEY_BLOCK, std::max(0, start(query) - origin),
                   std::min(KEY_BLOCK, position(query) - origin + 1), call.scale, own.part_max[query],
                   own.part_sum[query], own.weights + place * KEY_BLOCK);
        float *gathered = own.part.data() + (int64_t)query * dim;
        if (factor != 1.0f)
            for (int d = 0; d < dim; d += LANES) store(gathered + d, load(gathered + d) * factor);
    }

  public:
    Tile(const Call<T> &call, const Task &task, Scratch<T> &own) : call(call), task(task), own(own) {}

    void prepare() {
        own.fit(call.padded_dim);
        using Query = typename Format<T>::Query;
        if (call.padded_dim != call.head_dim) {
            std::fill(own.keys.begin(), own.keys.end(), T{});
            std::fill(own.values.begin(), own.values.end(), T{});
        }
        for (int i = 0; i < task.count; i++) {
            const int query = task.first + i, head = task.kv_head * call.group + query % call.group;
            const T *from = call.queries + (task.span.row + query / call.group) * call.row_stride +
                            head * call.head_stride;
            Query *to = own.queries.data() + (int64_t)i * call.padded_dim;
            int d = 0;
            if constexpr (std::is_same_v<Query, T>) {
                memcpy(to, from, call.head_dim * sizeof(T));
                memset((void *)(to + call.head_dim), 0, (call.padded_dim - call.head_dim) * sizeof(T));
            } else {
                for (; d + LANES <= call.head_dim; d += LANES) store(to + d, load(from + d));
                if (d < call.padded_dim) store(to + d, load_some(from + d, call.head_dim - d));
            }
        }
#if HAS_TILES
        if constexpr (Format<T>::pairs)
            if (call.tiles) turn_queries();
#endif
    }

    // part, part_max, part_sum: the queries' sums over the keys of one chunk.
    void compute(int64_t chunk) {
        const int dim = call.padded_dim, n = task.count;
        const int padded = (n + AMX - 1) / AMX * AMX;
        std::fill(own.part.begin(), own.part.begin() + (int64_t)padded * dim, 0.0f);
        std::fill(own.part_max, own.part_max + n, NOTHING);
        std::fill(own.part_sum, own.part_sum + n, 0.0f);
        const int64_t first = std::max<int64_t>(chunk * CHUNK, start(0));
        const int64_t past = std::min<int64_t>((chunk + 1) * CHUNK, position(n - 1) + 1);
        const T *keys[KEY_BLOCK], *values[KEY_BLOCK];
#if HAS_TILES
        if (call.tiles) configure_tiles(TileShapes());
#endif
        for (int64_t block = first / KEY_BLOCK; block * KEY_BLOCK < past; block++) {
            const int64_t origin = block * KEY_BLOCK;
            const int begin = std::max<int64_t>(first - origin, 0), end = std::min<int64_t>(past - origin, KEY_BLOCK);
            find(block, begin, end, keys, values);
#if HAS_TILES
            if constexpr (Format<T>::pairs)
                if (call.tiles) {
                    take_tiles(block, begin, end, keys, values);
                    continue;
                }
#endif
            int query = 0;
            for (; query + 4 <= n; query += 4) take<4>(query, block, keys, values);
            for (; query + 2 <= n; query += 2) take<2>(query, block, keys, values);
            if (query < n) take<1>(query, block, keys, values);
        }
#if HAS_TILES
        if (call.tiles) _tile_release();
#endif
    }

    void begin_total() {
        std::fill(own.total.begin(), own.total.begin() + (int64_t)task.count * call.padded_dim, 0.0f);
        std::fill(own.total_max, own.total_max + task.count, NOTHING);
        std::fill(own.total_sum, own.total_sum + task.count, 0.0f);
    }

    void add_to_total(const float *part, const float *part_max, const float *part_sum) {
        const int64_t dim = call.padded_dim;
        for (int i = 0; i < task.count; i++)
            merge(own.total.data() + i * dim, own.total_max[i], own.total_sum[i], part + i * dim, part_max[i],
                  part_sum[i], call.scale, dim);
    }

    void finish() {
        for (int i = 0; i < task.count; i++) {
            const int query = task.first + i, head = task.kv_head * call.group + query % call.group;
            T *to = call.out + ((int64_t)(task.span.row + query / call.group) * call.heads + head) * call.head_dim;
            const float *from = own.total.data() + (int64_t)i * call.padded_dim;
            const float share = 1.0f / own.total_sum[i];
            int d = 0;
            for (; d + LANES <= call.head_dim; d += LANES) store(to + d, load(from + d) * share);
            if (d < call.head_dim) store_some(to + d, load(from + d) * share, call.head_dim - d);
        }
    }

    void whole() {
        prepare();
        begin_total();
        for (int64_t chunk = task.chunk_begin; chunk < task.chunk_end; chunk++) {
            compute(chunk);
            add_to_total(own.part.data(), own.part_max, own.part_sum);
        }
        finish();
    }
};

template <class T> Scratch<T> &own_scratch() {
    thread_local Scratch<T> scratch;
    return scratch;
}

// Too few tiles for the threads: chunks are computed apart, then merged in order.
template <class T> void split_chunks(const Call<T> &call, const std::vector<Task> &tasks, int threads) {
    struct Part {
        int task;
        int64_t chunk;
        int64_t place;
    };
    std::vector<Part> parts;
    std::vector<int64_t> places;
    const int64_t dim = call.padded_dim;
    int64_t floats = 0;
    for (size_t i = 0; i < tasks.size(); i++) {
        places.push_back(floats);
        for (int64_t chunk = tasks[i].chunk_begin; chunk < tasks[i].chunk_end; chunk++) {
            parts.push_back({(int)i, chunk, floats});
            floats += tasks[i].count * (dim + 2);
        }
    }
    std::unique_ptr<float[]> held(new float[floats]);
    const int64_t count = parts.size();
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int64_t i = 0; i < count; i++) {
        const Task &task = tasks[parts[i].task];
        Scratch<T> &own = own_scratch<T>();
        Tile<T> tile(call, task, own);
        tile.prepare();
        tile.compute(parts[i].chunk);
        float *to = held.get() + parts[i].place;
        memcpy(to, own.part.data(), task.count * dim * sizeof(float));
        memcpy(to + task.count * dim, own.part_max, task.count * sizeof(float));
        memcpy(to + task.count * (dim + 1), own.part_sum, task.count * sizeof(float));
    }
    for (size_t i = 0; i < tasks.size(); i++) {
        const Task &task = tasks[i];
        Scratch<T> &own = own_scratch<T>();
        Tile<T> tile(call, task, own);
        tile.begin_total();
        const float *from = held.get() + places[i];
        for (int64_t chunk = task.chunk_begin; chunk < task.chunk_end; chunk++, from += task.count * (dim + 2))
            tile.add_to_total(from, from + task.count * dim, from + task.count * (dim + 1));
        tile.finish();
    }
}

template <class T>
void attend(const T *queries, int64_t row_stride, int64_t head_stride, const T *pages, const Plan &plan, T *out,
            int64_t rows, float scale, int threads) {
    Call<T> call;
    call.queries = queries, call.row_stride = row_stride, call.head_stride = head_stride;
    call.pages = pages, call.out = out, call.table = (const int32_t *)plan.table;
    call.heads = plan.heads, call.kv_heads = plan.kv_heads, call.head_dim = plan.head_dim;
    call.padded_dim = (plan.head_dim + Format<T>::unit - 1) / Format<T>::unit * Format<T>::unit;
    call.group = plan.heads / plan.kv_heads, call.block_size = plan.block_size, call.window = plan.window;
#if HAS_TILES
    call.tiles = Format<T>::pairs && may_use_tiles();
#else
    call.tiles = false;
#endif
    call.scale = scale * 1.44269504f;
    const Span *spans = (const Span *)plan.spans;

    std::vector<Task> tasks;
    double work = 0;
    int64_t most_chunks = 1;
    int64_t done = 0;
    for (int64_t s = 0; s < plan.span_count; s++) {
        const Span &span = spans[s];
        const int all = span.count * call.group;
        done = std::max<int64_t>(done, span.row + span.count);
        for (int kv_head = 0; kv_head < call.kv_heads; kv_head++)
            for (int first = 0; first < all; first += TILE) {
                Task task{span, kv_head, first, std::min(TILE, all - first), 0, 0, 0};
                const int64_t past = span.position + (first + task.count - 1) / call.group + 1;
                const int64_t start = span.position + first / call.group;
                const int64_t from = call.window ? std::max<int64_t>(0, start - call.window + 1) : 0;
                task.chunk_begin = from / CHUNK, task.chunk_end = (past + CHUNK - 1) / CHUNK;
                task.cost = double(past - from) * task.count * call.padded_dim;
                work += task.cost;
                most_chunks = std::max(most_chunks, task.chunk_end - task.chunk_begin);
                tasks.push_back(task);
            }
    }
    const int64_t row = (int64_t)call.heads * call.head_dim;
    if (done < rows) memset((void *)(out + done * row), 0, (rows - done) * row * sizeof(T));  // Spare rows.

    const int64_t count = tasks.size();
    if (threads == 1 || work < SERIAL_WORK) {
        for (const Task &task : tasks) Tile<T>(call, task, own_scratch<T>()).whole();
    } else if (count < 2 * threads && most_chunks > 1) {
        split_chunks(call, tasks, threads);
    } else {
        // Longest first: what is handed out last is short, and the threads end together.
        std::stable_sort(tasks.begin(), tasks.end(), [](const Task &a, const Task &b) { return a.cost > b.cost; });
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
        for (int64_t i = 0; i < count; i++) Tile<T>(call, tasks[i], own_scratch<T>()).whole();
    }
}

}  // namespace

// queries: (rows, heads, d) with the strides given, in numbers; out: (rows, heads * d); pages: (blocks, block size, 2,
// kv heads, d). Returns 0, or -1 when a table names a block outside the pages; nothing has been computed then.
#define ATTEND(NAME, T)                                                                                               \
    extern "C" int32_t NAME(const void *queries, int64_t row_stride, int64_t head_stride, const void *pages,          \
                            int64_t blocks, const void *plan_at, void *out, int64_t rows, float scale,                \
                            int32_t threads) {                                                                        \
        const Plan &plan = *(const Plan *)plan_at;                                                                    \
        const uint32_t *table = (const uint32_t *)plan.table;                                                         \
        uint32_t last = 0;                                                                                            \
        for (int64_t i = 0; i < plan.table_size; i++) last = std::max(last, table[i]);                                \
        if (last >= (uint64_t)blocks) return -1;                                                                      \
        attend<T>((const T *)queries, row_stride, head_stride, (const T *)pages, plan, (T *)out, rows, scale,         \
                  threads);                                                                                           \
        return 0;                                                                                                     \
    }
ATTEND(attend_f32, float)
ATTEND(attend_bf16, bf16)
ATTEND(attend_f16, fp16)

extern "C" const char *vector_set() {
#if HAS_TILES
    if (may_use_tiles()) return "amx_bf16";
#endif
#if defined(__AVX512BF16__) && defined(__AVX512BW__)
    return "avx512_bf16";
#elif defined(__AVX512F__)
    return "avx512";
#elif defined(__AVX2__) && defined(__FMA__)
    return "avx2";
#else
    return "portable";
#endif
}
