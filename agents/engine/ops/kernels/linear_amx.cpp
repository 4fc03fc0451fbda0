// Products with bfloat16 weights on Intel's AMX: tiles of 16 rows by 32 inputs times 32 inputs by 16 outputs.
//
// A sum goes through the inputs by 32, in their order, each 32 added up by the instruction (even and odd ones apart, as
// its manual says), whatever the number of rows or threads: a row's bits are its own. Numbers too small to be normal
// count as zero.
//
// The weight is packed as for linear_bfloat16.cpp, inputs padded to 32: panels of 64 outputs that go through the inputs
// by twos. Sixteen such steps of 16 outputs are a tile of weights as it lies there.

#include <omp.h>

#include "amx_tiles.h"
#include "linear_rows.h"

namespace tailwright {
namespace {

constexpr long kInputs = 32;               // Inputs in a tile.
constexpr long kPanelStep = kInputs * kTile;  // Elements of a panel in a step through the inputs.
constexpr long kRows = 32;                 // Rows whose sums stay in the tiles: two tiles high.
constexpr long kRowsBytes = 1 << 20;       // Rows that stay in the second cache while panels pass.

// Sums are tiles 0 to 3, rows 4 and 5, weights 6 and 7; one tile high: sums 0 to 3, rows 4, weights 5 to 7.
// own: rows that are there, of up to 32.
inline TileShapes shapes_for(long own) {
    TileShapes shapes;
    if (own <= 16) {
        for (int tile = 0; tile < 5; ++tile) shapes.rows[tile] = own;
    } else {
        shapes.rows[2] = shapes.rows[3] = shapes.rows[5] = own - 16;
    }
    return shapes;
}

inline void clear_sums() {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

// sums (rows, 64) of up to 16 rows.
inline void one_high(const uint16_t* panel, long steps, const uint16_t* acts, long stride, float* sums) {
    clear_sums();
    for (long step = 0; step < steps; ++step, panel += kPanelStep, acts += kInputs) {
        for (long line = 0; line < kPanelStep; line += 32) {
            _mm_prefetch((const char*)(panel + 2 * kPanelStep + line), _MM_HINT_T0);
        }
        _tile_loadd(4, acts, stride);
        _tile_loadd(5, panel, kTile * 4);
        _tile_dpbf16ps(0, 4, 5);
        _tile_loadd(6, panel + 32, kTile * 4);
        _tile_dpbf16ps(1, 4, 6);
        _tile_loadd(7, panel + 64, kTile * 4);
        _tile_dpbf16ps(2, 4, 7);
        _tile_loadd(5, panel + 96, kTile * 4);
        _tile_dpbf16ps(3, 4, 5);
    }
    _tile_stored(0, sums, kTile * 4);
    _tile_stored(1, sums + 16, kTile * 4);
    _tile_stored(2, sums + 32, kTile * 4);
    _tile_stored(3, sums + 48, kTile * 4);
}

// sums (rows, 64) of 17 to 32 rows, 32 outputs at a time.
inline void two_high(const uint16_t* panel, long steps, const uint16_t* acts, long stride, float* sums) {
    for (int half = 0; half < 2; ++half, panel += 64, sums += 32) {
        clear_sums();
        const char* low = (const char*)acts;
        const char* high = low + 16 * stride;
        for (long step = 0; step < steps; ++step) {
            _tile_loadd(4, low + step * kInputs * 2, stride);
            _tile_loadd(6, panel + step * kPanelStep, kTile * 4);
            _tile_loadd(7, panel + step * kPanelStep + 32, kTile * 4);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            _tile_loadd(5, high + step * kInputs * 2, stride);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
        _tile_stored(0, sums, kTile * 4);
        _tile_stored(1, sums + 16, kTile * 4);
        _tile_stored(2, sums + 16 * kTile, kTile * 4);
        _tile_stored(3, sums + 16 * kTile + 16, kTile * 4);
    }
}

// All the rows of a block times one panel. `set`: for how many rows the tiles are shaped, kept from panel to panel.
void times_panel(const uint16_t* panel, long inputs, const uint16_t* acts, long rows, float* sums, long& set) {
    const long steps = inputs / kInputs, stride = inputs * 2;
    for (long row = 0; row < rows; row += kRows) {
        const long own = rows - row < kRows ? rows - row : kRows;
        if (own != set) {
            configure_tiles(shapes_for(own));
            set = own;
        }
        if (own > 16) {
            two_high(panel, steps, acts + row * inputs, stride, sums + row * kTile);
        } else {
            one_high(panel, steps, acts + row * inputs, stride, sums + row * kTile);
        }
    }
    tiles_and_memory_agree();
}

thread_local Scratch scratch, own_sums;

}  // namespace
}  // namespace tailwright

extern "C" {

// 0: this process may use AMX's tiles.
int tailwright_amx_request() { return may_use_tiles() ? 0 : -1; }

// out (count, outputs) = rows (count, inputs) times bfloat16 weights; rows are rounded to bfloat16 first; bias or null.
// inputs: of the rows; the weight's are padded to 32.
void tailwright_linear_amx(const void* rows, int dtype, long count, long inputs, long outputs, const void* weight,
                        const float* bias, void* out, int threads) {
    using namespace tailwright;
    const long whole = (inputs + kInputs - 1) / kInputs * kInputs;
    const bool copy = dtype != kBfloat16 || whole != inputs;
    uint16_t* acts = copy ? (uint16_t*)scratch.reserve(count * whole * 2) : (uint16_t*)rows;
    const long tiles = (outputs + kTile - 1) / kTile;
    long block = kRowsBytes / (whole * 2) / kRows * kRows;
    if (block < kRows) block = kRows;
    if (block > count) block = count;
#pragma omp parallel num_threads(threads)
    {
        if (copy) {
#pragma omp for schedule(static)
            for (long row = 0; row < count; ++row) {
                const char* from = (const char*)rows + row * inputs * item_size(dtype);
                row_to_bfloat16(from, dtype, inputs, whole, acts + row * whole);
            }
        }
        float* sums = (float*)own_sums.reserve(block * kTile * sizeof(float));
        long set = 0;
        for (long row = 0; row < count; row += block) {
            const long own = count - row < block ? count - row : block;
#pragma omp for schedule(static) nowait
            for (long tile = 0; tile < tiles; ++tile) {
                const uint16_t* panel = (const uint16_t*)weight + tile * whole * kTile;
                times_panel(panel, whole, acts + row * whole, own, sums, set);
                write_tile(sums, own, tile, outputs, nullptr, bias, (char*)out + row * outputs * item_size(dtype), dtype);
            }
        }
        _tile_release();
    }
}
}
