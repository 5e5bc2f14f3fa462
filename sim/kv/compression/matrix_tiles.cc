#include "kv/compression/matrix_tiles.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/error.h"

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define KVTIDE_HAS_TILE_CODE 1
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
// The compiler's own headers start some of these from an undefined value on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#define KVTIDE_TILE_CODE __attribute__((target("avx512f,avx512bw,amx-tile,amx-bf16")))
#endif

namespace kvtide::kv {
namespace {

constexpr std::int64_t kTileRows = 16;
constexpr std::int64_t kTileChannels = 32;
constexpr std::int64_t kTileElements = kTileRows * kTileChannels;
constexpr std::int64_t kParts = kTileParts;

}  // namespace

const std::uint16_t* TileOperand::tile(std::int64_t row_tile, std::int64_t chunk, std::int64_t part) const {
  return tiles_[static_cast<std::size_t>(((row_tile * num_chunks_ + chunk) * num_parts_ + part) * kTileRows)].channels;
}

#ifdef KVTIDE_HAS_TILE_CODE

namespace {

bool ask_for_tiles() {
  const char* const wish = std::getenv("KVTIDE_MATRIX_TILES");
  if (wish != nullptr && std::string_view(wish) == "off") return false;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  constexpr unsigned kBf16 = 1U << 22U;
  constexpr unsigned kTile = 1U << 24U;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & (kBf16 | kTile)) != (kBf16 | kTile)) return false;
  if (__builtin_cpu_supports("avx512f") == 0 || __builtin_cpu_supports("avx512bw") == 0) return false;
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // the state component
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t num_rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

/// The first parts of two sets of sixteen float32, side by side: a 32-bit lane holds a bfloat16 of either. So channel c lies
/// beside channel 16 + c, in both factors of a product, which adds up channels in any order.
KVTIDE_TILE_CODE inline void split(__m512 low, __m512 high, std::int64_t num_parts, __m512i parts[kParts]) {
  const __m512i half = _mm512_set1_epi32(0x8000);
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
  for (std::int64_t part = 0; part < num_parts; ++part) {
    const __m512i of_low = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(low), half), upper);
    const __m512i of_high = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(high), half), upper);
    parts[part] = _mm512_or_si512(_mm512_srli_epi32(of_low, 16), of_high);
    low = _mm512_sub_ps(low, _mm512_castsi512_ps(of_low));
    high = _mm512_sub_ps(high, _mm512_castsi512_ps(of_high));
  }
}

/// Sixteen rows of sixteen 32-bit lanes, transposed: pairs, then fours, then eights, then halves.
KVTIDE_TILE_CODE inline void transpose(__m512i row[16]) {
  __m512i two[16];
  for (int r = 0; r < 16; r += 2) {
    two[r] = _mm512_unpacklo_epi32(row[r], row[r + 1]);
    two[r + 1] = _mm512_unpackhi_epi32(row[r], row[r + 1]);
  }
  __m512i four[16];
  for (int r = 0; r < 16; r += 4) {
    four[r] = _mm512_unpacklo_epi64(two[r], two[r + 2]);
    four[r + 1] = _mm512_unpackhi_epi64(two[r], two[r + 2]);
    four[r + 2] = _mm512_unpacklo_epi64(two[r + 1], two[r + 3]);
    four[r + 3] = _mm512_unpackhi_epi64(two[r + 1], two[r + 3]);
  }
  // four[4 g + c] holds columns c, c + 4, c + 8, c + 12 of rows 4 g .. 4 g + 3, one column a 128-bit lane.
  for (int c = 0; c < 4; ++c) {
    const __m512i low_even = _mm512_shuffle_i32x4(four[c], four[4 + c], 0x88);
    const __m512i low_odd = _mm512_shuffle_i32x4(four[c], four[4 + c], 0xdd);
    const __m512i high_even = _mm512_shuffle_i32x4(four[8 + c], four[12 + c], 0x88);
    const __m512i high_odd = _mm512_shuffle_i32x4(four[8 + c], four[12 + c], 0xdd);
    row[c] = _mm512_shuffle_i32x4(low_even, high_even, 0x88);
    row[c + 4] = _mm512_shuffle_i32x4(low_odd, high_odd, 0x88);
    row[c + 8] = _mm512_shuffle_i32x4(low_even, high_even, 0xdd);
    row[c + 12] = _mm512_shuffle_i32x4(low_odd, high_odd, 0xdd);
  }
}

/// Rows that are asked for before their turn: long operands come from far away.
constexpr std::int64_t kRowsAhead = 2 * kTileRows;

/// One tile of 16 rows and 32 channels, its parts one after another. A column operand's tile is transposed by pairs of
/// channels, as the processor reads it. @param num_rows  from the tile's first on; more than 16 follow
template <std::int64_t kNumParts>
KVTIDE_TILE_CODE void fill_tile(TileOperand::Side side, const float* values, std::int64_t stride, std::int64_t num_rows,
                                std::int64_t num_channels, float factor, std::uint16_t* tile) {
  const auto mask_of = [](std::int64_t count) {
    return static_cast<__mmask16>((1U << static_cast<unsigned>(std::clamp<std::int64_t>(count, 0, 16))) - 1U);
  };
  const __mmask16 first_mask = mask_of(num_channels);
  const __mmask16 second_mask = mask_of(num_channels - 16);
  const __m512 factors = _mm512_set1_ps(factor);
  for (std::int64_t row = 0; row < kTileRows; ++row) {
    __m512i parts[kParts] = {};
    if (row < num_rows) {
      const float* of_row = values + row * stride;
      if (row + kRowsAhead < num_rows) {
        __builtin_prefetch(of_row + kRowsAhead * stride);
        __builtin_prefetch(of_row + kRowsAhead * stride + 16);
      }
      split(_mm512_mul_ps(_mm512_maskz_loadu_ps(first_mask, of_row), factors),
            _mm512_mul_ps(_mm512_maskz_loadu_ps(second_mask, of_row + 16), factors), kNumParts, parts);
    }
    for (std::int64_t part = 0; part < kNumParts; ++part) {
      _mm512_store_si512(tile + part * kTileElements + row * kTileChannels, parts[part]);
    }
  }
  for (std::int64_t part = 0; part < kNumParts && side == TileOperand::Side::columns; ++part) {
    __m512i rows[kTileRows];
    std::uint16_t* of_part = tile + part * kTileElements;
    for (std::int64_t row = 0; row < kTileRows; ++row) rows[row] = _mm512_load_si512(of_part + row * kTileChannels);
    transpose(rows);
    for (std::int64_t row = 0; row < kTileRows; ++row) _mm512_store_si512(of_part + row * kTileChannels, rows[row]);
  }
}

}  // namespace

bool has_matrix_tiles() {
  static const bool has = ask_for_tiles();
  return has;
}

void TileOperand::assign(Side side, const float* values, std::int64_t num_rows, std::int64_t num_channels,
                         std::int64_t stride, float factor, TilePrecision precision) {
  num_parts_ = precision == TilePrecision::full ? kParts : kParts - 1;
  num_pairs_ = (num_rows + 2 * kTileRows - 1) / (2 * kTileRows);
  num_chunks_ = (num_channels + kTileChannels - 1) / kTileChannels;
  const std::int64_t needed = 2 * num_pairs_ * num_chunks_ * num_parts_ * kTileRows;
  if (needed > capacity_) {
    // Written whole below, so nothing is cleared first.
    tiles_ = std::make_unique_for_overwrite<TileRow[]>(static_cast<std::size_t>(needed));
    capacity_ = needed;
  }
  for (std::int64_t row_tile = 0; row_tile < 2 * num_pairs_; ++row_tile) {
    const std::int64_t first = row_tile * kTileRows;
    for (std::int64_t chunk = 0; chunk < num_chunks_; ++chunk) {
      const std::int64_t channel = chunk * kTileChannels;
      std::uint16_t* tile =
          tiles_[static_cast<std::size_t>((row_tile * num_chunks_ + chunk) * num_parts_ * kTileRows)].channels;
      (is_exact() ? fill_tile<kParts> : fill_tile<kParts - 1>)(side, values + first * stride + channel, stride,
                                                               num_rows - first, num_channels - channel, factor, tile);
    }
  }
}

namespace {

constexpr int kRowBytes = 64;

KVTIDE_TILE_CODE inline void configure() {
  static const TileConfiguration configuration;
  _tile_loadconfig(&configuration);
}

/// Two tiles of rows times two of columns, left in tiles 0..3: four sums, since one product waits for the former.
KVTIDE_TILE_CODE inline void multiply_pairs(const TileOperand& rows, std::int64_t row_pair, const TileOperand& columns,
                                            std::int64_t column_pair, bool is_full) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::int64_t chunk = 0; chunk < rows.num_chunks(); ++chunk) {
    // Rows in tiles 4 and 5, columns in 6 and 7. Each step from product to product changes the part of one factor only,
    // since a tile takes half as long to load as to multiply.
    const auto load_rows = [&](std::int64_t part) KVTIDE_TILE_CODE {
      _tile_loadd(4, rows.tile(2 * row_pair, chunk, part), kRowBytes);
      _tile_loadd(5, rows.tile(2 * row_pair + 1, chunk, part), kRowBytes);
    };
    const auto load_columns = [&](std::int64_t part) KVTIDE_TILE_CODE {
      _tile_loadd(6, columns.tile(2 * column_pair, chunk, part), kRowBytes);
      _tile_loadd(7, columns.tile(2 * column_pair + 1, chunk, part), kRowBytes);
    };
    const auto multiply = [&]() KVTIDE_TILE_CODE {
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    };
    load_rows(1);
    if (is_full) {
      load_columns(1);
      multiply();
    }
    load_columns(0);
    multiply();
    if (is_full) {
      load_rows(2);
      multiply();
    }
    load_rows(0);
    multiply();
    load_columns(1);
    multiply();
    if (is_full) {
      load_columns(2);
      multiply();
    }
  }
}

KVTIDE_TILE_CODE inline void store_pairs(float* product, std::int64_t stride) {
  const auto stride_bytes = static_cast<int>(stride) * static_cast<int>(sizeof(float));
  _tile_stored(0, product, stride_bytes);
  _tile_stored(1, product + kTileRows, stride_bytes);
  _tile_stored(2, product + kTileRows * stride, stride_bytes);
  _tile_stored(3, product + kTileRows * stride + kTileRows, stride_bytes);
}

constexpr std::int64_t kPairRows = 2 * kTileRows;

/// totals[row][lane] += |product[row][lane]| + |product[row][lane + 16]|
KVTIDE_TILE_CODE inline void add_absolutes(const float* product, float* totals) {
  for (std::int64_t row = 0; row < kPairRows; ++row) {
    const __m512 sum = _mm512_add_ps(_mm512_abs_ps(_mm512_load_ps(product + row * kPairRows)),
                                     _mm512_abs_ps(_mm512_load_ps(product + row * kPairRows + kTileRows)));
    float* of_row = totals + row * kTileRows;
    _mm512_store_ps(of_row, _mm512_add_ps(_mm512_load_ps(of_row), sum));
  }
}

}  // namespace

namespace {

/// With the tiles configured.
KVTIDE_TILE_CODE void multiply_all(const TileOperand& rows, const TileOperand& columns, std::int64_t num_rows,
                                   std::int64_t num_columns, TilePrecision precision, float* product,
                                   std::int64_t stride) {
  KVTIDE_ASSERT(rows.num_chunks() == columns.num_chunks(), "both factors have the same channels");
  const bool is_full = precision == TilePrecision::full;
  KVTIDE_ASSERT(!is_full || (rows.is_exact() && columns.is_exact()), "all parts of both factors");
  const std::int64_t num_pairs = std::min(columns.num_pairs(), (num_columns + kPairRows - 1) / kPairRows);
  const std::int64_t num_row_pairs = std::min(rows.num_pairs(), (num_rows + kPairRows - 1) / kPairRows);
  for (std::int64_t row_pair = 0; row_pair < num_row_pairs; ++row_pair) {
    for (std::int64_t column_pair = 0; column_pair < num_pairs; ++column_pair) {
      multiply_pairs(rows, row_pair, columns, column_pair, is_full);
      store_pairs(product + kPairRows * (row_pair * stride + column_pair), stride);
    }
  }
}

}  // namespace

KVTIDE_TILE_CODE void tile_product(const TileOperand& rows, const TileOperand& columns, std::int64_t num_rows,
                                   std::int64_t num_columns, TilePrecision precision, float* product,
                                   std::int64_t stride) {
  configure();
  multiply_all(rows, columns, num_rows, num_columns, precision, product, stride);
  _tile_release();
}

KVTIDE_TILE_CODE void tile_product(const PlainRows& rows, const TileOperand& columns, std::int64_t num_columns,
                                   TilePrecision precision, float* product, std::int64_t stride) {
  // The next rows' tiles are made before these are multiplied: what was stored a moment ago cannot be loaded as a tile yet.
  // And the tiles are configured once, since the first product afterwards waits for as long as many others take.
  thread_local TileOperand operands[2];
  const auto assign = [&](std::int64_t row) {
    operands[row / kPairRows % 2].assign(TileOperand::Side::rows, rows.values + row * rows.num_channels, kPairRows,
                                         rows.num_channels, rows.num_channels, rows.factor, precision);
  };
  assign(0);
  configure();
  for (std::int64_t row = 0; row < rows.num_rows; row += kPairRows) {
    if (row + kPairRows < rows.num_rows) assign(row + kPairRows);
    multiply_all(operands[row / kPairRows % 2], columns, kPairRows, num_columns, precision, product + row * stride,
                 stride);
  }
  _tile_release();
}

KVTIDE_TILE_CODE void add_tile_absolute_sums(const TileOperand& rows, const TileOperand& columns, float* sums) {
  KVTIDE_ASSERT(rows.num_chunks() == columns.num_chunks(), "both factors have the same channels");
  configure();
  // Two products in turn: one is summed while the next is made.
  alignas(64) float product[2][kPairRows * kPairRows] = {};
  for (std::int64_t row_pair = 0; row_pair < rows.num_pairs(); ++row_pair) {
    alignas(64) float totals[kPairRows * kTileRows] = {};
    for (std::int64_t column_pair = 0; column_pair < columns.num_pairs(); ++column_pair) {
      multiply_pairs(rows, row_pair, columns, column_pair, false);
      if (column_pair > 0) add_absolutes(product[(column_pair - 1) % 2], totals);
      store_pairs(product[column_pair % 2], kPairRows);
    }
    add_absolutes(product[(columns.num_pairs() - 1) % 2], totals);
    for (std::int64_t row = 0; row < kPairRows; ++row) {
      sums[row_pair * kPairRows + row] += _mm512_reduce_add_ps(_mm512_load_ps(totals + row * kTileRows));
    }
  }
  _tile_release();
}

#else

bool has_matrix_tiles() {
  return false;
}

void TileOperand::assign(Side, const float*, std::int64_t, std::int64_t, std::int64_t, float, TilePrecision) {
  KVTIDE_ASSERT(false, "built without matrix tiles");
}

void tile_product(const TileOperand&, const TileOperand&, std::int64_t, std::int64_t, TilePrecision, float*,
                  std::int64_t) {
  KVTIDE_ASSERT(false, "built without matrix tiles");
}

void tile_product(const PlainRows&, const TileOperand&, std::int64_t, TilePrecision, float*, std::int64_t) {
  KVTIDE_ASSERT(false, "built without matrix tiles");
}

void add_tile_absolute_sums(const TileOperand&, const TileOperand&, float*) {
  KVTIDE_ASSERT(false, "built without matrix tiles");
}

#endif

}  // namespace kvtide::kv
