#pragma once
// Codecs: how rows of K or V are stored in fewer bits. One codec a file, one line in codecs(); `quantize.h` applies them
// to a layer.
//
// A codec states its bytes apart from its numbers, because a served cache has only bytes: a row's bytes lie in pages
// (codes, and scales that the format keeps with them), block and head metadata beside the pages.
// Example: q8_0, head_dim 128: 4 blocks of 32 channels, each 32 codes and an fp16 scale: 136 B a row, nothing beside.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kv/compression/compression.h"

namespace kvtide::kv {

struct Codec;

/// What a codec is asked for: K or V of one head under one stage.
struct CodecUse {
  const Codec* codec = nullptr;
  const Quantize* stage = nullptr;
  bool is_key = true;
  std::int64_t columns = 0;  ///< stored channels of a row
};

/// The rows of one head that are encoded together, blocks one after another.
struct CodecRows {
  RowMatrix* values = nullptr;               ///< [row, columns]; replaced by what is read back
  std::span<const std::int64_t> block_rows;  ///< rows of each block
  std::span<const std::int64_t> positions;   ///< [row] first original position of the entry
  const HeadTensors* tensors = nullptr;      ///< the head as recorded, for codecs that look at attention
};

struct Codec {
  std::string_view name;
  std::string_view summary;
  std::string_view paper;
  std::int32_t bits = 16;  ///< of one code, rounded up; 16: read as it is, no kernel converts
  bool is_exact = false;   ///< rows stay as recorded
  /// Work to read an element back, in units of an integer's (extract, subtract zero, multiply by scale).
  double read_cost = 1;
  double write_operations = 6;         ///< CUDA-core operations to encode an element
  RopeState k_rope = RopeState::post;  ///< how the method stores keys unless the stage says otherwise
  std::int64_t divisor = 1;            ///< stored channels must be a multiple
  bool needs_power_of_two = false;     ///< of stored channels: Hadamard rotations
  bool takes_groups = false;           ///< obeys group, k_axis, v_axis and symmetric of the stage

  Bytes (*row_bytes)(const CodecUse& use) = nullptr;
  /// Beside the pages, for a block of `num_rows`; null: none.
  Bytes (*block_metadata)(const CodecUse& use, std::int64_t num_rows) = nullptr;
  /// Beside the pages, once for K (or V) of a head; null: none.
  Bytes (*head_metadata)(const CodecUse& use) = nullptr;
  /// Encodes and decodes. @throws InputError when the trace lacks what the method looks at
  void (*code)(const CodecUse& use, const CodecRows& rows) = nullptr;
};

/// Every codec, in the order of their families. `fp16` is the first and does nothing.
[[nodiscard]] const std::vector<Codec>& codecs();
/// What serving stacks call fp8_e4m3.
inline constexpr std::string_view kShortFp8 = "fp8";
/// @param name  kShortFp8, too  @throws InputError naming the nearest when unknown
[[nodiscard]] const Codec& find_codec(std::string_view name);

/// Why the codec cannot store rows of so many channels, else empty. Example: "q4_0 stores blocks of 32 channels, which do
/// not divide the 80 stored channels of a head".
[[nodiscard]] std::string unfit_reason(const CodecUse& use);

/// Stored bits of an element, metadata included, in whole blocks of `block_size` rows. Example: int4 in groups of 32
/// along the tokens, blocks of 128 -> 4 + 32 / 32 = 5.
/// @param num_positions  of the head, over which what is stored once a head is spread
[[nodiscard]] double stored_bits(const CodecUse& use, std::int64_t block_size, std::int64_t num_positions);

}  // namespace kvtide::kv
