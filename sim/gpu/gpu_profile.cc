#include "gpu/gpu_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/data_directory.h"
#include "base/error.h"
#include "config/yaml_value.h"

namespace kvtide::gpu {
namespace {

using config::Value;

/// Reads `key: {value: ..., source: ...}` below a map and remembers each as a fact.
class FactReader {
 public:
  FactReader(Value map, std::vector<ProfileFact>& facts) : map_(std::move(map)), facts_(&facts) {}

  [[nodiscard]] double quantity(std::string_view key, const config::QuantityRule& rule) {
    return entry(key).as_quantity(rule);
  }
  [[nodiscard]] double number(std::string_view key, double min, double max) {
    return entry(key).as_number({.fallback = {}, .min = min, .max = max});
  }
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max) {
    return entry(key).as_integer({.fallback = {}, .min = min, .max = max});
  }
  [[nodiscard]] std::string text(std::string_view key) { return entry(key).as_string(); }
  [[nodiscard]] Value raw(std::string_view key) const { return map_.at(key); }

 private:
  Value entry(std::string_view key) {
    const Value fact = map_.at(key);
    const Value value = fact.at("value");
    const Value source = fact.at("source");
    const std::string source_text = source.as_string();
    if (source.exists() && source_text.empty()) source.error("a value without a source is not allowed");
    if (value.exists()) facts_->push_back({fact.path(), value.text(), source_text});
    return value;
  }

  Value map_;
  std::vector<ProfileFact>* facts_;
};

constexpr double kMaxSeconds = 1;  // no cost of one kernel is longer; keeps every product of the model finite

config::QuantityRule seconds() {
  return {.dimension = Dimension::time, .fallback = {}, .min = 0, .max = kMaxSeconds};
}
config::QuantityRule positive(Dimension dimension, double max) {
  return {.dimension = dimension, .fallback = {}, .min = 1, .max = max};
}

void read_memory(const Value& map, GpuProfile& profile) {
  FactReader memory(map, profile.facts);
  profile.reported_bytes = static_cast<Bytes>(memory.quantity("reported_bytes", positive(Dimension::size, 1e15)));
  profile.memory_standard = memory.text("standard");
  profile.num_stacks = memory.integer("stacks", 1, 1024);
  profile.num_channels = memory.integer("channels", 1, 65536);
  profile.bus_bits = memory.integer("bus_bits", 8, 1 << 20);
  // "5.234 Gbit/s" is a bandwidth of one pin; the struct counts bits.
  profile.data_rate = 8 * memory.quantity("data_rate", positive(Dimension::bandwidth, 1e13));
  profile.bandwidth = memory.quantity("bandwidth", positive(Dimension::bandwidth, 1e16));
  profile.memory_latency = memory.quantity("latency", seconds());
  profile.memory_queue_size = memory.integer("queue_size", 1, 4096);
  profile.bandwidth_note = memory.raw("bandwidth_note").as_string("");
  const double from_pins = static_cast<double>(profile.bus_bits) * profile.data_rate / 8;
  if (std::abs(from_pins / profile.bandwidth - 1) > 0.01 && profile.bandwidth_note.empty()) {
    memory.raw("bandwidth")
        .error(fmt::format("bus_bits x data_rate / 8 = {:.4g} B/s, which is not within 1 % of the stated {:.4g} B/s; "
                           "correct one of them, "
                           "or say why in bandwidth_note",
                           from_pins, profile.bandwidth));
  }
}

void read_l2(const Value& map, GpuProfile& profile) {
  FactReader l2(map, profile.facts);
  profile.l2_bytes = static_cast<Bytes>(l2.quantity("size", positive(Dimension::size, 1e13)));
  profile.l2_usable_share = l2.number("usable_share", 0.01, 1);
  profile.l2_bandwidth = l2.quantity("bandwidth", positive(Dimension::bandwidth, 1e17));
  profile.l2_latency = l2.quantity("latency", seconds());
}

void read_sms(const Value& map, GpuProfile& profile) {
  FactReader sms(map, profile.facts);
  profile.num_sms = sms.integer("count", 1, 1 << 20);
  profile.clock = sms.quantity("clock", positive(Dimension::frequency, 1e12));
  profile.tensor_flops_16bit = sms.quantity("tensor_16bit", positive(Dimension::flops, 1e19));
  profile.tensor_flops_8bit =
      sms.quantity("tensor_8bit", {.dimension = Dimension::flops, .fallback = {}, .min = 0, .max = 1e19});
  profile.cuda_core_flops = sms.quantity("fp32", positive(Dimension::flops, 1e19));
  profile.bytes_in_flight = static_cast<Bytes>(sms.quantity("bytes_in_flight", positive(Dimension::size, 1e9)));
}

void read_tiles(const Value& list, AttentionKernel& kernel) {
  for (const Value& pair : list.items()) {
    const std::int64_t head_dim = pair.integer("head_dim", {.fallback = {}, .min = 1, .max = 65536});
    const std::int64_t entries = pair.integer("entries", {.fallback = {}, .min = 1, .max = 65536});
    if (!kernel.tiles.empty() && head_dim <= kernel.tiles.back().first)
      pair.error("head_dim must ascend from entry to entry");
    kernel.tiles.emplace_back(head_dim, entries);
  }
  if (kernel.tiles.empty()) list.error("expected at least one {head_dim, entries}");
}

AttentionKernel read_attention_kernel(const Value& map, GpuProfile& profile) {
  AttentionKernel kernel;
  kernel.name = map.string("name");
  FactReader facts(map, profile.facts);
  kernel.fixed_time = facts.quantity("fixed_time", seconds());
  kernel.task_time = facts.quantity("task_time", seconds());
  kernel.task_time_per_channel = facts.quantity("task_time_per_channel", seconds());
  kernel.combine_time = facts.quantity("combine_time", seconds());
  kernel.bytes_in_flight = static_cast<Bytes>(facts.quantity("bytes_in_flight", positive(Dimension::size, 1e9)));
  kernel.tile_query_rows = facts.integer("tile_query_rows", 1, 65536);
  kernel.max_splits = facts.integer("max_splits", 1, 65536);
  kernel.tensor_efficiency = facts.number("tensor_efficiency", 0.001, 1);
  kernel.transpose_rate =
      facts.quantity("transpose_rate", {.dimension = Dimension::rate, .fallback = {}, .min = 1, .max = 1e18});
  read_tiles(map.at("tiles"), kernel);
  return kernel;
}

GpuProfile read_profile(config::Document document) {
  const Value root = document.root();
  GpuProfile profile;
  profile.name = root.string("name");
  const Value aliases = root.at("aliases");
  if (aliases.exists()) {
    for (const Value& alias : aliases.items()) profile.aliases.push_back(alias.as_string());
  }
  read_memory(root.at("memory"), profile);
  read_l2(root.at("l2"), profile);
  read_sms(root.at("sm"), profile);
  FactReader launch(root.at("launch"), profile.facts);
  profile.graph_launch_latency = launch.quantity("graph", seconds());
  profile.stream_launch_latency = launch.quantity("stream", seconds());
  const Value kernels = root.at("attention_kernels");
  for (const Value& kernel : kernels.items()) {
    profile.attention_kernels.push_back(read_attention_kernel(kernel, profile));
  }
  if (profile.attention_kernels.empty()) kernels.error("expected at least one kernel");
  FactReader gemm(root.at("gemm"), profile.facts);
  profile.gemm.fixed_time = gemm.quantity("fixed_time", seconds());
  profile.gemm.combine_time = gemm.quantity("combine_time", seconds());
  profile.gemm.tensor_efficiency = gemm.number("tensor_efficiency", 0.001, 1);
  root.finish();
  document.throw_if_errors();
  return profile;
}

}  // namespace

std::int64_t AttentionKernel::tile_entries(std::int64_t head_dim) const {
  for (const auto& [largest_head_dim, entries] : tiles) {
    if (head_dim <= largest_head_dim) return entries;
  }
  // Beyond the list the scratch memory of one tile stays constant: entries x head_dim does.
  const auto& [largest_head_dim, entries] = tiles.back();
  return std::max<std::int64_t>(1, entries * largest_head_dim / head_dim);
}

const AttentionKernel& GpuProfile::attention_kernel(const std::string& wanted) const {
  if (wanted.empty()) return attention_kernels.front();
  std::string names;
  for (const AttentionKernel& kernel : attention_kernels) {
    if (kernel.name == wanted) return kernel;
    names += names.empty() ? kernel.name : ", " + kernel.name;
  }
  throw InputError(fmt::format("{}: no attention kernel \"{}\" (known: {})", name, wanted, names));
}

GpuProfile parse_gpu_profile(const std::string& text, const std::string& origin) {
  return read_profile(config::Document::parse(text, origin));
}

GpuProfile load_gpu_profile(const std::string& name_or_path) {
  // An alias is tried only when no file has that name, so that a user's own file always wins.
  if (name_or_path.find_first_of("./") == std::string::npos) {
    const std::vector<std::string> shipped = known_gpus();
    if (std::ranges::find(shipped, name_or_path) == shipped.end()) {
      for (const std::string& candidate : shipped) {
        GpuProfile profile = read_profile(config::Document::load(find_data_file("hw_profiles", candidate, {".yaml"})));
        if (std::ranges::find(profile.aliases, name_or_path) != profile.aliases.end()) return profile;
      }
    }
  }
  return read_profile(config::Document::load(find_data_file("hw_profiles", name_or_path, {".yaml"})));
}

std::vector<std::string> known_gpus() {
  return list_data_files("hw_profiles", {".yaml"});
}

}  // namespace kvtide::gpu
