#pragma once
// Products of float32 matrices on a processor's matrix tiles (Intel AMX, bfloat16 inputs, float32 sums), where it has them.
//
// A float32 has 24 significant bits, a bfloat16 has 8: x = x0 + x1 + x2 holds exactly, each part the rounding of what the
// former left. Of the nine products of two such sums the six of order 2^0, 2^-8 and 2^-16 are added; the three left out
// are below 2^-23 of |x y|, what rounding in float32 costs anyway.
//
// Example: x = 1 + 2^-9: x0 = 1 (8 bits end at 2^-7), x1 = 2^-9, x2 = 0; x * x = x0 x0 + 2 x0 x1 + x1 x1 = 1 + 2^-8 + 2^-18.

#include <cstdint>
#include <memory>

namespace kvtide::kv {

/// Whether this processor has the tiles and the system lets this process use them; asked once. KVTIDE_MATRIX_TILES=off in the
/// environment says no: the same sums in plain float32, as on a processor without them.
[[nodiscard]] bool has_matrix_tiles();

/// How many of a product's parts are added.
enum class TilePrecision : std::uint8_t {
  full,  ///< six products: float32
  half   ///< three products: about 2^-16 of |x y|, in half the time; for sums of many that are only compared
};

/// bfloat16 that hold a float32 exactly.
inline constexpr std::int64_t kTileParts = 3;

/// Rows of a matrix in tiles of 16 rows and 32 channels, split; either factor of a product.
class TileOperand {
 public:
  enum class Side : std::uint8_t { rows, columns };

  /// @param values   [num_rows, num_channels] with `stride` elements from row to row
  /// @param factor   multiplies every element first
  /// @param precision  what products it will be asked for: half keeps two parts, not three
  TileOperand(Side side, const float* values, std::int64_t num_rows, std::int64_t num_channels, std::int64_t stride,
              float factor = 1, TilePrecision precision = TilePrecision::full) {
    assign(side, values, num_rows, num_channels, stride, factor, precision);
  }
  TileOperand() = default;
  /// The same in the space of before, where that is enough.
  void assign(Side side, const float* values, std::int64_t num_rows, std::int64_t num_channels, std::int64_t stride,
              float factor = 1, TilePrecision precision = TilePrecision::full);

  [[nodiscard]] std::int64_t num_pairs() const { return num_pairs_; }    ///< of tiles of 16 rows: ceil(rows / 32)
  [[nodiscard]] std::int64_t num_chunks() const { return num_chunks_; }  ///< of 32 channels
  [[nodiscard]] bool is_exact() const { return num_parts_ == kTileParts; }
  /// 512 numbers, as the processor reads them. @param part  0 the coarsest
  [[nodiscard]] const std::uint16_t* tile(std::int64_t row_tile, std::int64_t chunk, std::int64_t part) const;

 private:
  std::int64_t num_parts_ = 0;
  std::int64_t num_pairs_ = 0;
  std::int64_t num_chunks_ = 0;
  /// One row of a tile fills one line of the processor's caches; a tile that lay across lines would be read twice.
  struct alignas(64) TileRow {
    std::uint16_t channels[32];
  };
  std::int64_t capacity_ = 0;         ///< in rows of tiles
  std::unique_ptr<TileRow[]> tiles_;  ///< [tile of 16 rows, chunk of 32 channels, part, 16]
};

/// product[row * stride + column] = rows[row] . columns[column], for the first `num_rows` and
/// `num_columns`, both rounded up to 32. Only where has_matrix_tiles().
void tile_product(const TileOperand& rows, const TileOperand& columns, std::int64_t num_rows, std::int64_t num_columns,
                  TilePrecision precision, float* product, std::int64_t stride);

/// Rows of float32 as they lie, one after another.
struct PlainRows {
  const float* values = nullptr;  ///< [row, channel]
  std::int64_t num_rows = 0;      ///< a multiple of 32
  std::int64_t num_channels = 0;
  float factor = 1;  ///< multiplies every element first
};

/// The same product of rows that are made into tiles a few at a time, so that these are at hand when they are multiplied.
void tile_product(const PlainRows& rows, const TileOperand& columns, std::int64_t num_columns, TilePrecision precision,
                  float* product, std::int64_t stride);

/// sums[row] += sum over columns of |rows[row] . columns[column]|, for all rows (rounded up to 32), in half precision. Only
/// where has_matrix_tiles().
void add_tile_absolute_sums(const TileOperand& rows, const TileOperand& columns, float* sums);

}  // namespace kvtide::kv
