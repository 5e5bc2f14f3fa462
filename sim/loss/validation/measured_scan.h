#pragma once
// What a real model answered with a compressed cache, row by row: scans laid out like real-*.csv, and which prompt of a
// file laid out like real-scan-prompts.h5 each row belongs to.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvtide::loss {

enum class CompressionTime : std::uint8_t {
  agnostic,  ///< before the question is seen
  aware,     ///< after the question but its last token
};

/// One setting that was measured; equal ones are the same configuration.
struct MeasuredSetting {
  std::string scan;  ///< the prompts' group: "prefix", "position", ...
  CompressionTime time = CompressionTime::agnostic;
  std::string policy;            ///< evict, pool_postrope, pool_prerope, int2, int4
  std::int64_t block = 0;        ///< tokens, 1..65536
  std::int64_t removed_ppm = 0;  ///< fraction removed, in millionths
  std::string head_scope;        ///< head, shared, all
  // NOLINTNEXTLINE(modernize-use-nullptr)
  auto operator<=>(const MeasuredSetting&) const = default;
};

struct MeasuredRow {
  MeasuredSetting setting;
  std::int64_t prompt = 0;                   ///< probe_start or prefix_len, as in the group
  double loss = 0;                           ///< logp_full - logp_comp, nats
  bool is_failing = false;                   ///< em_comp is 0
  std::int64_t grid_offset = 0;              ///< tokens by which the block grid is moved, as if they stood in front
  std::string kind;                          ///< of text and probe, where the file has such a column
  std::optional<std::int64_t> right_tokens;  ///< free-running, before the first wrong one; column of the same name
};

/// Rows of several files; kind, grid_offset and right_tokens are optional columns. The scan of a file is "prefix" where it has a prefix_len column; else the group of the prompts
/// whose contexts are as long as context_len and that holds all its probe_start (the first such in the order of names).
/// @throws InputError  a missing column or value out of range; no group holds a file's prompts
[[nodiscard]] std::vector<MeasuredRow> load_measured_scans(const std::string& prompts,
                                                           const std::vector<std::string>& files);

}  // namespace kvtide::loss
