#pragma once
// The compressed KV cache of one sequence: segments per layer and KV head. The one description both observers read:
// the machine asks which bytes a decode step streams, the loss meter what attention still sees of a position.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "kv/head_tensors.h"

namespace kvtide::kv {

/// How K or V rows are stored. Equal forms of a head share pages.
struct StoredForm {
  enum class Kind : std::uint8_t { fp16, coded, low_rank };
  Kind kind = Kind::fp16;
  std::int32_t bits = 16;       ///< per stored element, rounded up
  std::int32_t columns = 0;     ///< stored elements per entry: head_dim, or the rank
  std::string_view codec = {};  ///< a name of codecs(), which outlives every form; empty: fp16
  std::int32_t row_bytes = 0;   ///< of a coded entry in its page, scales kept there included
  std::int32_t rank = 0;        ///< low rank: coefficients from which a row is rebuilt, those of other heads included
  std::int32_t layers = 1;  ///< low rank: layers with common coefficients; each stores its part and reads all of them
  bool operator==(const StoredForm&) const = default;
  /// Bytes of one entry in its page.
  [[nodiscard]] Bytes entry_bytes() const {
    return codec.empty() ? static_cast<Bytes>(columns) * static_cast<Bytes>(bits) / 8 : static_cast<Bytes>(row_bytes);
  }
  [[nodiscard]] std::string name() const;  ///< "fp16", "int4", "rank32/fp16", "rank32/int4"
};

/// A run of original positions stored in one representation. Evicted positions are the gaps between segments.
struct Segment {
  std::int64_t begin = 0;        ///< first original position
  std::int64_t end = 0;          ///< one past the last
  std::int64_t num_entries = 0;  ///< stored rows: end - begin, or fewer where rows were pooled
  StoredForm k_form;
  StoredForm v_form;
  Bytes k_metadata = 0;  ///< scales, zero points, low-rank bases
  Bytes v_metadata = 0;
};

/// What attention sees of the segments, entry by entry. Present where numbers are at hand (a trace), absent for a
/// served geometry that only has decisions.
struct EntryTable {
  RowMatrix k;  ///< [entry, head_dim] after RoPE, as read back from its stored form
  RowMatrix v;  ///< [entry, head_dim]
  /// Positions were only dropped: each entry is the recorded row of its position, bias 0, and k, v and bias stay empty.
  bool is_recorded = false;
  std::vector<float> bias;             ///< [entry] added to the logit; ln(members) of a mass-corrected pool, else 0
  std::vector<std::int32_t> entry_of;  ///< [position] the entry that holds it, -1 where evicted
};

struct HeadCache {
  std::int64_t num_positions = 0;  ///< original length; the next token's position, whatever was evicted
  std::vector<Segment> segments;   ///< ascending, disjoint
  std::vector<Segment> copies;     ///< stored again by overlapping blocks: read and multiplied, masked in the result
  std::vector<Segment> unread;     ///< stored, but left out by a decode step: memory pays, traffic does not
  std::vector<Segment> host;       ///< in host memory
  std::optional<EntryTable> entries;
  std::int64_t num_blocks = 0;        ///< blocks of the partition that hold at least one position
  std::int64_t protected_blocks = 0;  ///< of them: never compressed
};

/// The pages of one stored form of K or V in one head.
struct PagePool {
  StoredForm form;
  std::int64_t num_entries = 0;  ///< live entries
  std::int64_t num_pages = 0;    ///< ceil(num_entries / page_size) when the head packs its own pages
  Bytes payload_bytes = 0;       ///< num_pages * page_size * entry_bytes: a half-empty page costs as much as a full one
  Bytes metadata_bytes = 0;
};

/// K and V apart; each form once, in order of first appearance.
struct HeadPools {
  std::vector<PagePool> k;
  std::vector<PagePool> v;
};

/// Pools of a head that packs its own pages.
/// Example: 17 entries of fp16, head_dim 128, page_size 16 -> 2 pages, 2 * 16 * 128 * 2 B = 8,192 B for K and the same
/// for V.
/// @param page_size  entries in a page, >= 1
[[nodiscard]] HeadPools packed_pools(const HeadCache& head, std::int64_t page_size);

/// One layer's heads.
struct LayerCache {
  std::vector<HeadCache> heads;  ///< [kv_head]
};

}  // namespace kvtide::kv
