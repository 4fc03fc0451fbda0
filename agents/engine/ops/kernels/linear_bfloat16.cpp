// Products with bfloat16 weights, or fp8 (e4m3) weights that are widened to bfloat16 in registers; float32 sums.
//
// Pairs of inputs are multiplied and added by vdpbf16ps in the order of the inputs, whatever the number of rows or
// threads: a row's bits are its own.
//
// A weight is packed in tiles of 64 outputs, a tile goes through the inputs by twos: 64 outputs x 2 inputs. For fp8 the
// 64 bytes of 32 outputs are ordered so that unpacking their low and high halves gives outputs 0-15 and 16-31.

#include <omp.h>

#include "linear_rows.h"

namespace tailwright {
namespace {

constexpr long kBlock = 256;  // Inputs per panel: 64 x 256 bfloat16 are 32 KiB.

// Two products added to each sum. Written as the instruction itself, since the compiler's intrinsic copies accumulators
// from register to register in the loop below.
inline void multiply_add(__m512& sums, __m512i weights, __m512i acts) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sums) : "v"(weights), "v"(acts));
}

template <int R>
inline void add_block(const uint16_t* panel, long steps, const uint16_t* acts, long stride, float* sums) {
    __m512 acc[R][kVectors];
    for (int r = 0; r < R; ++r) {
        for (int v = 0; v < kVectors; ++v) acc[r][v] = _mm512_load_ps(sums + r * kTile + v * 16);
    }
    for (long step = 0; step < steps; ++step) {
        __m512i weight[kVectors];
        for (int v = 0; v < kVectors; ++v) weight[v] = _mm512_loadu_si512(panel + step * 128 + v * 32);
        for (int r = 0; r < R; ++r) {
            int32_t two;
            std::memcpy(&two, acts + r * stride + step * 2, 4);
            const __m512i spread = _mm512_set1_epi32(two);
            for (int v = 0; v < kVectors; ++v) multiply_add(acc[r][v], weight[v], spread);
        }
    }
    for (int r = 0; r < R; ++r) {
        for (int v = 0; v < kVectors; ++v) _mm512_store_ps(sums + r * kTile + v * 16, acc[r][v]);
    }
}

inline void add_block_to_rows(const uint16_t* panel, long steps, const uint16_t* acts, long stride, long rows,
                              float* sums) {
    for (long done = 0; done < rows;) {
        const long left = rows - done;
        const uint16_t* from = acts + done * stride;
        float* to = sums + done * kTile;
        if (left >= 6) {
            add_block<6>(panel, steps, from, stride, to), done += 6;
        } else if (left == 5) {
            add_block<5>(panel, steps, from, stride, to), done += 5;
        } else if (left == 4) {
            add_block<4>(panel, steps, from, stride, to), done += 4;
        } else if (left == 3) {
            add_block<3>(panel, steps, from, stride, to), done += 3;
        } else if (left == 2) {
            add_block<2>(panel, steps, from, stride, to), done += 2;
        } else {
            add_block<1>(panel, steps, from, stride, to), done += 1;
        }
    }
}

#ifdef __AVX512VBMI__
// The bfloat16 bits of the 128 positive e4m3 codes, low and high bytes apart.
struct Widening {
    alignas(64) uint8_t low[128], high[128];

    Widening() {
        for (int code = 0; code < 128; ++code) {
            const int exponent = code >> 3, fraction = code & 7;
            float value = exponent ? __builtin_ldexpf(1.0f + fraction / 8.0f, exponent - 7)
                                   : __builtin_ldexpf(fraction / 8.0f, -6);
            if (code == 127) value = __builtin_nanf("");
            uint32_t bits;
            std::memcpy(&bits, &value, 4);
            low[code] = (uint8_t)(bits >> 16);
            high[code] = (uint8_t)(bits >> 24);
        }
    }
};
const Widening widening;

inline void widen_block(const uint8_t* packed, long steps, uint16_t* panel) {
    const __m512i low0 = _mm512_load_si512(widening.low), low1 = _mm512_load_si512(widening.low + 64);
    const __m512i high0 = _mm512_load_si512(widening.high), high1 = _mm512_load_si512(widening.high + 64);
    const __m512i sign = _mm512_set1_epi8((char)0x80);
    for (long half = 0; half < steps * 2; ++half) {
        const __m512i codes = _mm512_loadu_si512(packed + half * 64);
        const __m512i low = _mm512_permutex2var_epi8(low0, codes, low1);  // The eighth bit of an index is ignored.
        __m512i high = _mm512_permutex2var_epi8(high0, codes, high1);
        high = _mm512_or_si512(high, _mm512_and_si512(codes, sign));
        _mm512_store_si512(panel + half * 64, _mm512_unpacklo_epi8(low, high));
        _mm512_store_si512(panel + half * 64 + 32, _mm512_unpackhi_epi8(low, high));
    }
}
#endif

thread_local Scratch scratch;

// inputs: a multiple of two (the caller pads).
template <bool kFp8>
void product(const void* rows, int dtype, long count, long inputs, long outputs, const void* weight,
             const float* scales, const float* bias, void* out, int threads) {
    const bool convert = dtype != kBfloat16;
    uint16_t* acts = convert ? (uint16_t*)scratch.reserve(count * inputs * 2 + 64) : (uint16_t*)rows;
    const long tiles = (outputs + kTile - 1) / kTile;
#pragma omp parallel num_threads(threads)
    {
        if (convert) {
#pragma omp for schedule(static)
            for (long row = 0; row < count; ++row) {
                const char* from = (const char*)rows + row * inputs * item_size(dtype);
                row_to_bfloat16(from, dtype, inputs, inputs, acts + row * inputs);
            }
        }
        alignas(64) float sums[kRowsInCache * kTile];
        alignas(64) uint16_t widened[kFp8 ? kBlock * kTile : 32];
#pragma omp for schedule(static) nowait
        for (long tile = 0; tile < tiles; ++tile) {
            for (long row = 0; row < count; row += kRowsInCache) {
                const long own = count - row < kRowsInCache ? count - row : kRowsInCache;
                std::memset(sums, 0, own * kTile * sizeof(float));
                for (long at = 0; at < inputs; at += kBlock) {
                    const long steps = (inputs - at < kBlock ? inputs - at : kBlock) / 2;
                    const uint16_t* panel;
                    if (kFp8) {
#ifdef __AVX512VBMI__
                        widen_block((const uint8_t*)weight + (tile * inputs + at) * kTile, steps, widened);
#endif
                        panel = widened;
                    } else {
                        panel = (const uint16_t*)weight + (tile * inputs + at) * kTile;
                    }
                    add_block_to_rows(panel, steps, acts + row * inputs + at, inputs, own, sums);
                }
                char* to = (char*)out + row * outputs * item_size(dtype);
                write_tile(sums, own, tile, outputs, scales, bias, to, dtype);
            }
        }
    }
}

}  // namespace
}  // namespace tailwright

extern "C" {

// out (count, outputs) = rows (count, inputs) times bfloat16 weights; rows are rounded to bfloat16 first; bias or null.
void tailwright_linear_bfloat16(const void* rows, int dtype, long count, long inputs, long outputs, const void* weight,
                             const float* bias, void* out, int threads) {
    tailwright::product<false>(rows, dtype, count, inputs, outputs, weight, nullptr, bias, out, threads);
}

// The same with fp8 (e4m3) weights and a scale per output.
void tailwright_linear_fp8(const void* rows, int dtype, long count, long inputs, long outputs, const void* weight,
                        const float* scales, const float* bias, void* out, int threads) {
    tailwright::product<true>(rows, dtype, count, inputs, outputs, weight, scales, bias, out, threads);
}
}
