// Products with float32, bfloat16 or float16 weights on any processor; everything is multiplied and added in float32.
//
// Each sum goes through the inputs one by one in their order, whatever the number of rows or threads: a row's bits are
// its own. Half-precision weights are widened in registers, so that they cost half the memory traffic of float32 ones.
//
// A weight is packed in tiles of 64 outputs, a tile goes through the inputs one by one: 64 outputs x 1 input.

#include <omp.h>

#include <cstdlib>
#include <memory>

#include "vectors.h"

namespace {

constexpr long TILE = 64;            // Outputs that are computed together.
constexpr long ROWS_IN_CACHE = 36;   // Rows whose sums (9 KiB) stay in the first cache beside a panel.
constexpr long PANEL_BYTES = 32768;  // Of weights, read again for each few rows.

// R rows and V vectors of outputs in registers: as many sums as leave room for a weight and the broadcast inputs.
template <int R, int V, class W>
inline void add_some(const W *panel, long inputs, const float *acts, long stride, float *sums) {
    Lanes acc[R][V];
    for (int r = 0; r < R; ++r)
        for (int v = 0; v < V; ++v) acc[r][v] = load(sums + r * TILE + v * LANES);
    for (long at = 0; at < inputs; ++at) {
        Lanes weight[V];
        for (int v = 0; v < V; ++v) weight[v] = load(panel + at * TILE + v * LANES);
        for (int r = 0; r < R; ++r) {
            const Lanes spread = splat(acts[r * stride + at]);
            for (int v = 0; v < V; ++v) acc[r][v] = fma(weight[v], spread, acc[r][v]);
        }
    }
    for (int r = 0; r < R; ++r)
        for (int v = 0; v < V; ++v) store(sums + r * TILE + v * LANES, acc[r][v]);
}

template <int R, class W>
inline void add_block(const W *panel, long inputs, const float *acts, long stride, float *sums) {
#if defined(__AVX512F__)
    constexpr int V = 4;  // 32 registers: the whole tile of up to six rows.
#else
    constexpr int V = R == 1 ? 8 : R == 2 ? 4 : 2;  // 16 registers.
#endif
    for (long first = 0; first < TILE; first += V * LANES)
        add_some<R, V>(panel + first, inputs, acts, stride, sums + first);
}

template <class W>
inline void add_block_to_rows(const W *panel, long inputs, const float *acts, long stride, long rows, float *sums) {
    for (; rows >= 6; rows -= 6, acts += 6 * stride, sums += 6 * TILE) add_block<6>(panel, inputs, acts, stride, sums);
    if (rows == 5) add_block<5>(panel, inputs, acts, stride, sums);
    if (rows == 4) add_block<4>(panel, inputs, acts, stride, sums);
    if (rows == 3) add_block<3>(panel, inputs, acts, stride, sums);
    if (rows == 2) add_block<2>(panel, inputs, acts, stride, sums);
    if (rows == 1) add_block<1>(panel, inputs, acts, stride, sums);
}

template <class T> void widen(const T *from, float *to, long count) {
    long at = 0;
    for (; at + LANES <= count; at += LANES) store(to + at, load(from + at));
    if (at < count) store_some(to + at, load_some(from + at, (int)(count - at)), (int)(count - at));
}

template <class T>
void write(const float *sums, long rows, long tile, long outputs, const float *bias, T *out) {
    const long first = tile * TILE, width = outputs - first < TILE ? outputs - first : TILE;
    for (long row = 0; row < rows; ++row) {
        for (long at = 0; at < width; at += LANES) {
            const int count = (int)(width - at < LANES ? width - at : LANES);
            Lanes value = load(sums + row * TILE + at);
            if (bias) value = value + (count == LANES ? load(bias + first + at) : load_some(bias + first + at, count));
            T *to = out + row * outputs + first + at;
            if (count == LANES) store(to, value);
            else store_some(to, value, count);
        }
    }
}

struct Free {
    void operator()(float *pointer) const { std::free(pointer); }
};

// Rows as float32 that a calling thread keeps from call to call, aligned to cache lines.
float *scratch(size_t floats) {
    thread_local std::unique_ptr<float, Free> memory;
    thread_local size_t size = 0;
    if (floats > size) {
        size = (floats + 1023) / 1024 * 1024;
        memory.reset((float *)std::aligned_alloc(4096, size * 4));
    }
    return memory.get();
}

// rows (count, inputs) and out (count, outputs) of type T; bias or null.
template <class T, class W>
void product(const T *rows, long count, long inputs, long outputs, const W *weight, const float *bias, T *out,
             int threads) {
    const bool convert = sizeof(T) != sizeof(float);
    float *acts = convert ? scratch((size_t)(count * inputs)) : (float *)rows;
    const long tiles = (outputs + TILE - 1) / TILE, block = PANEL_BYTES / (TILE * (long)sizeof(W));
#pragma omp parallel num_threads(threads)
    {
        if (convert) {
#pragma omp for schedule(static)
            for (long row = 0; row < count; ++row) widen(rows + row * inputs, acts + row * inputs, inputs);
        }
        alignas(64) float sums[ROWS_IN_CACHE * TILE];
#pragma omp for schedule(static) nowait
        for (long tile = 0; tile < tiles; ++tile) {
            for (long row = 0; row < count; row += ROWS_IN_CACHE) {
                const long own = count - row < ROWS_IN_CACHE ? count - row : ROWS_IN_CACHE;
                memset(sums, 0, own * TILE * sizeof(float));
                for (long at = 0; at < inputs; at += block) {
                    const long some = inputs - at < block ? inputs - at : block;
                    const W *panel = weight + (tile * inputs + at) * TILE;
                    add_block_to_rows(panel, some, acts + row * inputs + at, inputs, own, sums);
                }
                write(sums, own, tile, outputs, bias, out + row * outputs);
            }
        }
    }
}

template <class W>
void any_rows(const void *rows, int dtype, long count, long inputs, long outputs, const void *weight,
              const float *bias, void *out, int threads) {
    const W *packed = (const W *)weight;
    if (dtype == 0) product((const float *)rows, count, inputs, outputs, packed, bias, (float *)out, threads);
    else if (dtype == 1) product((const bf16 *)rows, count, inputs, outputs, packed, bias, (bf16 *)out, threads);
    else product((const fp16 *)rows, count, inputs, outputs, packed, bias, (fp16 *)out, threads);
}

}  // namespace

extern "C" {

// out (count, outputs) = rows (count, inputs) times weights, plus bias; rows and out: float32 (dtype 0), bfloat16 (1) or
// float16 (2).
void tailwright_linear_wide_f32(const void *rows, int dtype, long count, long inputs, long outputs, const void *weight,
                             const float *bias, void *out, int threads) {
    any_rows<float>(rows, dtype, count, inputs, outputs, weight, bias, out, threads);
}

void tailwright_linear_wide_bf16(const void *rows, int dtype, long count, long inputs, long outputs, const void *weight,
                              const float *bias, void *out, int threads) {
    any_rows<bf16>(rows, dtype, count, inputs, outputs, weight, bias, out, threads);
}

void tailwright_linear_wide_f16(const void *rows, int dtype, long count, long inputs, long outputs, const void *weight,
                             const float *bias, void *out, int threads) {
    any_rows<fp16>(rows, dtype, count, inputs, outputs, weight, bias, out, threads);
}
}
