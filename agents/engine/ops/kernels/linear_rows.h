// Rows in and out of the linear kernels: reading any of the three dtypes as float32, writing them back.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace tailwright {

constexpr long kTile = 64;        // Outputs that are computed together: four vectors of sixteen.
constexpr long kVectors = 4;      // Vectors in a tile.
constexpr long kRowsInCache = 36; // Rows whose float accumulators (9 KiB) stay in the first cache beside a panel.
constexpr long kMostRows = 6;     // Rows in registers at once: 24 accumulators, four weights, the rest for broadcasts.

enum Dtype { kFloat32 = 0, kBfloat16 = 1, kFloat16 = 2 };

inline __mmask16 mask_of(long count) { return count >= 16 ? 0xffff : (__mmask16)((1u << count) - 1); }

// GCC's AddressSanitizer does not see which elements a masked instruction touches: it is told of them.
#ifdef __SANITIZE_ADDRESS__
extern "C" void __asan_loadN(uintptr_t, size_t);
extern "C" void __asan_storeN(uintptr_t, size_t);
#define WILL_READ(first, mask) __asan_loadN((uintptr_t)(first), __builtin_popcount(mask) * sizeof *(first))
#define WILL_WRITE(first, mask) __asan_storeN((uintptr_t)(first), __builtin_popcount(mask) * sizeof *(first))
#else
#define WILL_READ(first, mask) (void)0
#define WILL_WRITE(first, mask) (void)0
#endif

inline __m512 read_some(const float* first, __mmask16 mask) {
    WILL_READ(first, mask);
    return _mm512_maskz_loadu_ps(mask, first);
}

inline __m256i read_some(const uint16_t* first, __mmask16 mask) {
    WILL_READ(first, mask);
    return _mm256_maskz_loadu_epi16(mask, first);
}

inline void write_some(float* first, __mmask16 mask, __m512 values) {
    WILL_WRITE(first, mask);
    _mm512_mask_storeu_ps(first, mask, values);
}

inline void write_some(uint16_t* first, __mmask16 mask, __m256i values) {
    WILL_WRITE(first, mask);
    _mm256_mask_storeu_epi16(first, mask, values);
}

// Elements [at, at + 16) of a row as float32; those past `left` are zero.
inline __m512 read16(const void* row, int dtype, long at, long left) {
    const __mmask16 mask = mask_of(left);
    if (dtype == kFloat32) return read_some((const float*)row + at, mask);
    const __m256i half = read_some((const uint16_t*)row + at, mask);
    if (dtype == kFloat16) return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

// float32 to bfloat16, nearest even; what is not a number stays so.
inline __m256i to_bfloat16(__m512 values) {
    const __m512i bits = _mm512_castps_si512(values);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __mmask16 unordered = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
    rounded = _mm512_mask_mov_epi32(rounded, unordered, _mm512_set1_epi32(0x7fc00000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}

inline void write16(void* row, int dtype, long at, long left, __m512 values) {
    const __mmask16 mask = mask_of(left);
    if (dtype == kFloat32) {
        write_some((float*)row + at, mask, values);
    } else if (dtype == kFloat16) {
        const __m256i half = _mm512_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        write_some((uint16_t*)row + at, mask, half);
    } else {
        write_some((uint16_t*)row + at, mask, to_bfloat16(values));
    }
}

inline long item_size(int dtype) { return dtype == kFloat32 ? 4 : 2; }

// A row of `inputs` numbers as bfloat16, `whole` of them: those past its end are zero.
inline void row_to_bfloat16(const void* row, int dtype, long inputs, long whole, uint16_t* to) {
    for (long at = 0; at < whole; at += 16) {
        const long left = inputs - at;
        write16(to, kBfloat16, at, whole - at, left > 0 ? read16(row, dtype, at, left) : _mm512_setzero_ps());
    }
}

// Writes a tile's accumulators for `rows` rows: out = accumulator * scale + bias, without what pads the last tile.
// scales or bias null: one, zero. out: the first row's first element of the whole output.
inline void write_tile(const float* sums, long rows, long tile, long outputs, const float* scales, const float* bias,
                       void* out, int dtype) {
    const long first = tile * kTile;
    for (long row = 0; row < rows; ++row) {
        char* target = (char*)out + row * outputs * item_size(dtype);
        for (long v = 0; v < kVectors; ++v) {
            const long at = first + v * 16, left = outputs - at;
            if (left <= 0) break;
            const __mmask16 mask = mask_of(left);
            __m512 value = _mm512_load_ps(sums + row * kTile + v * 16);
            const __m512 shift = bias ? read_some(bias + at, mask) : _mm512_setzero_ps();
            if (scales) {
                value = _mm512_fmadd_ps(value, read_some(scales + at, mask), shift);
            } else if (bias) {
                value = _mm512_add_ps(value, shift);
            }
            write16(target, dtype, at, left, value);
        }
    }
}

// A buffer that a calling thread keeps from call to call, aligned to cache lines.
class Scratch {
  public:
    char* reserve(size_t bytes) {
        if (bytes > size_) {
            size_ = (bytes + 4095) / 4096 * 4096;
            memory_.reset((char*)std::aligned_alloc(4096, size_));
        }
        return memory_.get();
    }

  private:
    struct Free {
        void operator()(char* pointer) const { std::free(pointer); }
    };
    std::unique_ptr<char, Free> memory_;
    size_t size_ = 0;
};

}  // namespace tailwright
