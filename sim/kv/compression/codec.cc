#include "kv/compression/codec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>

#include "base/data_directory.h"
#include "base/error.h"

namespace kvtide::kv {

/// One line a file of codecs, in the order of `kvtide show codecs`: `FAMILY(mine)` is the function mine_codecs() of that file.
#define KVTIDE_CODECS(FAMILY) \
  FAMILY(bfloat16)            \
  FAMILY(integer)             \
  FAMILY(fp8)                 \
  FAMILY(per_token)           \
  FAMILY(ggml)                \
  FAMILY(block_float)         \
  FAMILY(turboquant)          \
  FAMILY(polarquant)          \
  FAMILY(qjl)                 \
  FAMILY(kvquant)             \
  FAMILY(gear)                \
  FAMILY(zipcache)            \
  FAMILY(skvq)                \
  FAMILY(coupled)

#define KVTIDE_DECLARE(name) [[nodiscard]] std::vector<Codec> name##_codecs();
KVTIDE_CODECS(KVTIDE_DECLARE)
#undef KVTIDE_DECLARE

namespace {

std::vector<Codec> all_codecs() {
  std::vector<Codec> table;
  table.push_back({.name = "fp16",
                   .summary = "16-bit floating point: nothing is lost",
                   .paper = "",
                   .is_exact = true,
                   .read_cost = 0,
                   .write_operations = 0,
                   .row_bytes = [](const CodecUse& use) { return static_cast<Bytes>(use.columns) * 2; },
                   .code = [](const CodecUse&, const CodecRows&) {}});
#define KVTIDE_CALL(name) name##_codecs(),
  for (const auto& family : {KVTIDE_CODECS(KVTIDE_CALL)}) {
#undef KVTIDE_CALL
    table.insert(table.end(), family.begin(), family.end());
  }
  return table;
}

}  // namespace

const std::vector<Codec>& codecs() {
  static const std::vector<Codec> table = all_codecs();
  return table;
}

const Codec& find_codec(std::string_view name) {
  const std::string_view wanted = name == kShortFp8 ? "fp8_e4m3" : name;
  std::vector<std::string> known;
  for (const Codec& codec : codecs()) {
    if (codec.name == wanted) return codec;
    known.emplace_back(codec.name);
  }
  const std::string nearest = nearest_name(std::string(name), known);
  throw InputError(fmt::format("unknown codec \"{}\"{} (known: {})", name,
                               nearest.empty() ? "" : ", did you mean " + nearest + "?", fmt::join(known, ", ")));
}

std::string unfit_reason(const CodecUse& use) {
  const Codec& codec = *use.codec;
  if (codec.needs_power_of_two && !std::has_single_bit(static_cast<std::uint64_t>(use.columns))) {
    return fmt::format("{} rotates rows of a power of two channels, a head stores {}", codec.name, use.columns);
  }
  if (use.columns % codec.divisor != 0) {
    return fmt::format("{} stores blocks of {} channels, which do not divide the {} stored channels of a head",
                       codec.name, codec.divisor, use.columns);
  }
  return {};
}

double stored_bits(const CodecUse& use, std::int64_t block_size, std::int64_t num_positions) {
  const Codec& codec = *use.codec;
  const auto columns = static_cast<double>(use.columns);
  double bytes = static_cast<double>(codec.row_bytes(use));
  if (codec.block_metadata != nullptr) {
    bytes += static_cast<double>(codec.block_metadata(use, block_size)) / static_cast<double>(block_size);
  }
  if (codec.head_metadata != nullptr) {
    bytes += static_cast<double>(codec.head_metadata(use)) / static_cast<double>(num_positions);
  }
  return bytes * 8 / columns;
}

}  // namespace kvtide::kv
