// Intel's AMX: eight tiles of up to 16 rows of 64 bytes, for each thread, and the permission to use them.
#pragma once

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

// Asks Linux for the tiles: once for a process and all its threads, which it keeps.
inline bool may_use_tiles() {
    constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    static const bool granted = syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
    return granted;
}

// As LDTILECFG reads them; whole tiles, unless told otherwise.
struct alignas(64) TileShapes {
    uint8_t palette = 1, start = 0, reserved[14] = {};
    uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// The intrinsics tell the compiler of less memory than they read and write: stand between them and plain code.
inline void tiles_and_memory_agree() { asm volatile("" ::: "memory"); }

inline void configure_tiles(const TileShapes &shapes) {
    asm volatile("" ::"r"(&shapes) : "memory");
    _tile_loadconfig(&shapes);
}
