#include "experiment/partition_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace kvtide::experiment {
namespace {

using config::Value;

const std::vector<std::string> kAnchorKinds{"numbers",   "headings", "names",     "paragraphs",
                                            "sentences", "key_norm", "attention", "trace"};
const std::vector<std::string> kBoundaryKinds{"paragraphs", "sentences", "headings"};
constexpr std::int64_t kMaxPosition = 1 << 24;
constexpr std::size_t kMaxAnchors = 1 << 20;

void read_overlap(const Value& value, kv::Partition& partition) {
  const double fraction = value.number("fraction", {.fallback = 0.25, .min = 0, .max = 0.5, .min_is_open = true});
  partition.overlap_ppm = std::max<std::int64_t>(1, std::llround(fraction * 1e6));
  const std::string storage =
      value.choice("storage", {"duplicate", "union", "quantized_halo", "score_only"}, "duplicate");
  for (const auto candidate : {kv::OverlapStorage::duplicate, kv::OverlapStorage::union_once,
                               kv::OverlapStorage::quantized_halo, kv::OverlapStorage::score_only}) {
    if (kv::to_string(candidate) == storage) partition.storage = candidate;
  }
}

void read_kind(const Value& value, Setting& setting) {
  kv::Compression& compression = setting.compression;
  kv::Partition& partition = compression.partition;
  const std::string kind =
      value.choice("kind", {"fixed", "random_offset", "overlap", "prefix_pad", "content"}, "fixed");
  for (const auto candidate : {kv::PartitionKind::fixed, kv::PartitionKind::random_offset, kv::PartitionKind::overlap,
                               kv::PartitionKind::prefix_pad, kv::PartitionKind::content}) {
    if (kv::to_string(candidate) == kind) partition.kind = candidate;
  }
  switch (partition.kind) {
    case kv::PartitionKind::random_offset:
      partition.is_from_content = value.choice("source", {"request", "content"}, "request") == "content";
      break;
    case kv::PartitionKind::overlap:
      read_overlap(value.at("overlap"), partition);
      [[fallthrough]];
    case kv::PartitionKind::fixed:
      compression.grid_offset =
          value.integer("offset", {.fallback = 0, .min = 0, .max = kv::block_stride(compression) - 1});
      break;
    case kv::PartitionKind::prefix_pad:
      partition.pad_multiple =
          value.integer("multiple", {.fallback = compression.block_size, .min = 1, .max = kMaxPosition});
      partition.prefix_tokens = value.integer("prefix_tokens", {.fallback = 0, .min = 0, .max = kMaxPosition});
      break;
    case kv::PartitionKind::content:
      setting.boundaries = value.choice("boundaries", kBoundaryKinds, "paragraphs");
      break;
  }
}

void read_anchor(const Value& value, AnchorSetting& anchors) {
  std::int64_t position = 0;
  const std::string text = value.is_scalar() ? value.text() : "";
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), position);
  if (!text.empty() && error == std::errc{} && rest == text.data() + text.size()) {
    anchors.positions.push_back(value.as_integer({.min = 0, .max = kMaxPosition}));
    return;
  }
  const std::string kind = value.as_choice(kAnchorKinds, "");
  if (!kind.empty()) anchors.kinds.push_back(kind);
}

void read_anchors(const Value& value, AnchorSetting& anchors) {
  if (value.is_list()) {
    const std::vector<Value> elements = value.items();
    if (elements.size() > kMaxAnchors) {
      value.error(fmt::format("expected at most {} anchors, got {}", kMaxAnchors, elements.size()));
      return;
    }
    for (const Value& element : elements) read_anchor(element, anchors);
  } else if (value.exists() && !(value.is_scalar() && value.text() == "none")) {
    std::vector<std::string> allowed{"none"};
    allowed.insert(allowed.end(), kAnchorKinds.begin(), kAnchorKinds.end());
    const std::string kind = value.as_choice(allowed, "none");
    if (kind != "none") anchors.kinds.push_back(kind);
  }
  for (auto* list : {&anchors.kinds}) {
    std::ranges::sort(*list);
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  std::ranges::sort(anchors.positions);
  anchors.positions.erase(std::unique(anchors.positions.begin(), anchors.positions.end()), anchors.positions.end());
}

}  // namespace

void read_partition(const Value& value, Setting& setting) {
  kv::Compression& compression = setting.compression;
  read_kind(value.at("partition"), setting);
  const Value protect = value.at("protect");
  compression.sinks = protect.integer("sinks", {.fallback = 4, .min = 0, .max = 1 << 24});
  compression.window = protect.integer("window", {.fallback = 64, .min = 0, .max = 1 << 24});
  compression.protects_filling_block = protect.boolean("filling_block", true);
  read_anchors(protect.at("anchors"), setting.anchors);
  setting.anchors.share = protect.number("anchor_share", {.fallback = 0.05, .min = 0, .max = 1, .min_is_open = true});
  compression.anchor_scope = protect.choice("anchor_scope", {"block", "token"}, "block") == "token"
                                 ? kv::AnchorScope::token
                                 : kv::AnchorScope::block;
  const Value positions = value.at("positions");
  const std::string coding = positions.choice("kind", {"original", "contiguous", "smooth"}, "original");
  compression.positions = coding == "contiguous" ? kv::PositionCoding::contiguous
                          : coding == "smooth"   ? kv::PositionCoding::smooth
                                                 : kv::PositionCoding::original;
  if (compression.positions == kv::PositionCoding::smooth) {
    compression.smooth_width = positions.integer("width", {.fallback = 8, .min = 1, .max = 65536});
  }
}

}  // namespace kvtide::experiment
