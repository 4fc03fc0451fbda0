// Products with integer weights (int8, or 4 bits in groups) and activations that are quantized to int8 as they come.
//
// Per row and group of inputs: scale = largest / 127, code = round(value * 127 / largest) (nearest even).
// int8 weights are stored plus 128, because vpdpbusd multiplies unsigned by signed; -128 * sum(codes) makes up for it.
// A group's sum of products is exact in int32; groups are added in float32 in the order of the inputs. So a row's bits
// depend neither on other rows nor on the number of threads.
//
// A weight is packed in tiles of 64 outputs; a tile goes through the inputs by fours: 64 outputs x 4 inputs are 256
// (int8) or 128 bytes (4 bits: outputs 0-15 and 32-47 in the low half of a byte, 16-31 and 48-63 in the high half).

#include <omp.h>

#include "linear_rows.h"

namespace tailwright {
namespace {

// A row's activations: `codes` (padded inputs), and for each group its scale and the sum of its codes.
struct Codes {
    int8_t* codes;
    float* scales;
    int32_t* sums;
    long inputs;  // Padded to whole groups.
    long groups;
};

constexpr float kLeast = 1e-30f;  // A group whose largest magnitude is below is zero: 127 / largest must stay finite.

void quantize_row(const void* row, int dtype, long inputs, long group, const Codes& to, long index) {
    int8_t* codes = to.codes + index * to.inputs;
    for (long g = 0; g < to.groups; ++g) {
        const long start = g * group;
        // Magnitudes are compared as integers, for which a NaN is the greatest: it is never lost.
        __m512i largest = _mm512_setzero_si512();
        for (long at = start; at < start + group; at += 16) {
            const __m512i bits = _mm512_castps_si512(read16(row, dtype, at, inputs - at > 0 ? inputs - at : 0));
            largest = _mm512_max_epi32(largest, _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff)));
        }
        const int32_t top = _mm512_reduce_max_epi32(largest);
        float magnitude;
        std::memcpy(&magnitude, &top, sizeof magnitude);
        const bool finite = top < 0x7f800000, alive = finite && magnitude >= kLeast;
        const __m512 inverse = _mm512_set1_ps(alive ? 127.0f / magnitude : 0.0f);
        __m512i total = _mm512_setzero_si512();
        for (long at = start; at < start + group; at += 16) {
            const __m512 values = read16(row, dtype, at, inputs - at > 0 ? inputs - at : 0);
            const __m512i rounded = alive ? _mm512_cvtps_epi32(_mm512_mul_ps(values, inverse)) : _mm512_setzero_si512();
            total = _mm512_add_epi32(total, rounded);
            _mm_storeu_si128((__m128i*)(codes + at), _mm512_cvtsepi32_epi8(rounded));
        }
        to.sums[index * to.groups + g] = _mm512_reduce_add_epi32(total);
        // A row with an infinity or a NaN has no meaningful product: it is told by NaN, not hidden.
        const float poison = __builtin_nanf("");
        to.scales[index * to.groups + g] = finite ? (alive ? magnitude / 127.0f : 0.0f) : poison;
    }
}

// The weights' scales and offsets of one group for a tile's outputs (4 bits): value = code * scale + offset.
struct GroupScales {
    const uint16_t* scales;  // bfloat16
    const uint16_t* offsets;
};

inline __m512 widen(const uint16_t* values) {
    const __m512i bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)values));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
}

// Four products of unsigned weights and signed activations added to each sum. Written as the instruction itself, since
// the compiler's intrinsic copies accumulators from register to register in the loop below.
inline void multiply_add(__m512i& sums, __m512i weights, __m512i acts) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(weights), "v"(acts));
}

// Adds one group's products of R rows with a tile to their float sums. panel: the group's codes, 256 bytes a step.
template <int R, bool kGrouped>
inline void add_group(const uint8_t* panel, long steps, const Codes& acts, long row, long g, long start,
                      const GroupScales& weights, float* sums) {
    __m512i acc[R][kVectors];
    const int8_t* codes = acts.codes + row * acts.inputs + start;
    for (int r = 0; r < R; ++r) {
        const int32_t sum = acts.sums[(row + r) * acts.groups + g];
        const __m512i first = kGrouped ? _mm512_setzero_si512() : _mm512_set1_epi32(-128 * sum);
        for (int v = 0; v < kVectors; ++v) acc[r][v] = first;
    }
    for (long step = 0; step < steps; ++step) {
        __m512i weight[kVectors];
        for (int v = 0; v < kVectors; ++v) weight[v] = _mm512_loadu_si512(panel + step * 256 + v * 64);
        for (int r = 0; r < R; ++r) {
            int32_t four;
            std::memcpy(&four, codes + r * acts.inputs + step * 4, 4);
            const __m512i spread = _mm512_set1_epi32(four);
            for (int v = 0; v < kVectors; ++v) multiply_add(acc[r][v], weight[v], spread);
        }
    }
    __m512 scale[kVectors], offset[kVectors];
    if (kGrouped) {
        for (int v = 0; v < kVectors; ++v) {
            scale[v] = widen(weights.scales + v * 16);
            offset[v] = widen(weights.offsets + v * 16);
        }
    }
    for (int r = 0; r < R; ++r) {
        const __m512 act_scale = _mm512_set1_ps(acts.scales[(row + r) * acts.groups + g]);
        const __m512 act_sum = _mm512_set1_ps((float)acts.sums[(row + r) * acts.groups + g]);
        for (int v = 0; v < kVectors; ++v) {
            float* sum = sums + r * kTile + v * 16;
            __m512 product = _mm512_cvtepi32_ps(acc[r][v]);
            if (kGrouped) product = _mm512_fmadd_ps(product, scale[v], _mm512_mul_ps(offset[v], act_sum));
            _mm512_store_ps(sum, _mm512_fmadd_ps(product, act_scale, _mm512_load_ps(sum)));
        }
    }
}

template <bool kGrouped>
inline void add_group_to_rows(const uint8_t* panel, long steps, const Codes& acts, long row, long rows, long g,
                              long start, const GroupScales& weights, float* sums) {
    for (long done = 0; done < rows;) {
        const long left = rows - done;
        float* to = sums + done * kTile;
#define TAILWRIGHT_ROWS(R)                                                                          \
    add_group<R, kGrouped>(panel, steps, acts, row + done, g, start, weights, to); \
    done += R;
        if (left >= 6) {
            TAILWRIGHT_ROWS(6)
        } else if (left == 5) {
            TAILWRIGHT_ROWS(5)
        } else if (left == 4) {
            TAILWRIGHT_ROWS(4)
        } else if (left == 3) {
            TAILWRIGHT_ROWS(3)
        } else if (left == 2) {
            TAILWRIGHT_ROWS(2)
        } else {
            TAILWRIGHT_ROWS(1)
        }
#undef TAILWRIGHT_ROWS
    }
}

// 4-bit codes of one group as bytes.
inline void unpack4(const uint8_t* packed, long steps, uint8_t* panel) {
    const __m512i low = _mm512_set1_epi8(15);
    for (long step = 0; step < steps; ++step) {
        for (int pair = 0; pair < 2; ++pair) {
            const __m512i both = _mm512_loadu_si512(packed + step * 128 + pair * 64);
            _mm512_store_si512(panel + step * 256 + pair * 128, _mm512_and_si512(both, low));
            _mm512_store_si512(panel + step * 256 + pair * 128 + 64,
                               _mm512_and_si512(_mm512_srli_epi16(both, 4), low));
        }
    }
}

thread_local Scratch scratch;

Codes reserve(long rows, long inputs, long group) {
    const long groups = (inputs + group - 1) / group;
    const size_t codes = (size_t)rows * groups * group, each = (size_t)rows * groups * 4;
    char* memory = scratch.reserve(codes + 2 * each + 128);
    return {(int8_t*)memory, (float*)(memory + codes), (int32_t*)(memory + codes + each), groups * group, groups};
}

template <bool kGrouped>
void product(const void* rows, int dtype, long count, long inputs, long outputs, const uint8_t* weight, long group,
             const uint16_t* group_scales, const uint16_t* group_offsets, const float* scales, const float* bias,
             void* out, int threads) {
    const Codes acts = reserve(count, inputs, group);
    const long tiles = (outputs + kTile - 1) / kTile, steps = group / 4;
    const long panel_bytes = kTile * group / (kGrouped ? 2 : 1);
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static)
        for (long row = 0; row < count; ++row) {
            quantize_row((const char*)rows + row * inputs * item_size(dtype), dtype, inputs, group, acts, row);
        }
        alignas(64) float sums[kRowsInCache * kTile];
        alignas(64) uint8_t unpacked[kGrouped ? kTile * 64 : 64];
#pragma omp for schedule(static) nowait
        for (long tile = 0; tile < tiles; ++tile) {
            for (long row = 0; row < count; row += kRowsInCache) {
                const long own = count - row < kRowsInCache ? count - row : kRowsInCache;
                std::memset(sums, 0, own * kTile * sizeof(float));
                for (long g = 0; g < acts.groups; ++g) {
                    const uint8_t* panel = weight + (tile * acts.groups + g) * panel_bytes;
                    GroupScales of_group{nullptr, nullptr};
                    if (kGrouped) {
                        unpack4(panel, steps, unpacked);
                        panel = unpacked;
                        const long at = (tile * acts.groups + g) * kTile;
                        of_group = {group_scales + at, group_offsets + at};
                    }
                    add_group_to_rows<kGrouped>(panel, steps, acts, row, own, g, g * group, of_group, sums);
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

// out (count, outputs) = rows (count, inputs) times int8 weights; scales (outputs); bias (outputs) or null.
// group: a multiple of 16. out has the dtype of rows.
void tailwright_linear_int8(const void* rows, int dtype, long count, long inputs, long outputs, const uint8_t* weight,
                         long group, const float* scales, const float* bias, void* out, int threads) {
    tailwright::product<false>(rows, dtype, count, inputs, outputs, weight, group, nullptr, nullptr, scales, bias, out,
                            threads);
}

// The same with 4-bit codes; scales and offsets: bfloat16, (tiles, groups, 64); group: a multiple of 16, at most 64.
void tailwright_linear_int4(const void* rows, int dtype, long count, long inputs, long outputs, const uint8_t* weight,
                         long group, const uint16_t* scales, const uint16_t* offsets, const float* bias, void* out,
                         int threads) {
    tailwright::product<true>(rows, dtype, count, inputs, outputs, weight, group, scales, offsets, nullptr, bias, out,
                           threads);
}

// The codes (count, padded inputs), scales and sums (count, groups) that the rows get: for tests.
void tailwright_quantize_rows(const void* rows, int dtype, long count, long inputs, long group, int8_t* codes,
                           float* scales, int32_t* sums) {
    const long groups = (inputs + group - 1) / group;
    const tailwright::Codes to{codes, scales, sums, groups * group, groups};
    for (long row = 0; row < count; ++row) {
        tailwright::quantize_row((const char*)rows + row * inputs * tailwright::item_size(dtype), dtype, inputs, group, to,
                              row);
    }
}
}
