#include "gpu/gpu_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/data_directory.h"
#include "base/error.h"
#include "base/lower_case.h"
#include "config/yaml_value.h"
#include "gpu/fact_reader.h"

namespace kvtide::gpu {
namespace {

using config::Value;

void read_memory(const Value& map, GpuProfile& profile) {
  FactReader memory(map, profile.facts);
  profile.reported_bytes =
      static_cast<Bytes>(memory.quantity("reported_bytes", positive_quantity(Dimension::size, 1e15)));
  profile.memory_standard = memory.text("standard");
  profile.num_stacks = memory.integer("stacks", 1, 1024);
  profile.num_channels = memory.integer("channels", 1, 65536);
  profile.bus_bits = memory.integer("bus_bits", 8, 1 << 20);
  // "5.234 Gbit/s" is a bandwidth of one pin; the struct counts bits.
  profile.data_rate = 8 * memory.quantity("data_rate", positive_quantity(Dimension::bandwidth, 1e13));
  profile.bandwidth = memory.quantity("bandwidth", positive_quantity(Dimension::bandwidth, 1e16));
  profile.memory_latency = memory.quantity("latency", seconds());
  profile.memory_queue_size = memory.integer("queue_size", 1, 4096);
  if (memory.raw("tlb_reach").exists())
    profile.tlb_reach = static_cast<Bytes>(memory.quantity("tlb_reach", positive_quantity(Dimension::size, 1e15)));
  if (memory.raw("refresh").exists()) {
    profile.refreshes_bank_by_bank = memory.choice("refresh", {"all_bank", "per_bank"}) == "per_bank";
  }
  if (memory.raw("read_efficiency").exists()) profile.read_efficiency = memory.number("read_efficiency", 0.01, 1);
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
  profile.l2_bytes = static_cast<Bytes>(l2.quantity("size", positive_quantity(Dimension::size, 1e13)));
  profile.l2_usable_share = l2.number("usable_share", 0.01, 1);
  profile.l2_bandwidth = l2.quantity("bandwidth", positive_quantity(Dimension::bandwidth, 1e17));
  profile.l2_latency = l2.quantity("latency", seconds());
}

void read_sms(const Value& map, GpuProfile& profile) {
  FactReader sms(map, profile.facts);
  profile.num_sms = sms.integer("count", 1, 1 << 20);
  profile.clock = sms.quantity("clock", positive_quantity(Dimension::frequency, 1e12));
  profile.tensor_flops_16bit = sms.quantity("tensor_16bit", positive_quantity(Dimension::flops, 1e19));
  profile.tensor_flops_8bit =
      sms.quantity("tensor_8bit", {.dimension = Dimension::flops, .fallback = {}, .min = 0, .max = 1e19});
  const config::QuantityRule any_rate{.dimension = Dimension::flops, .fallback = {}, .min = 0, .max = 1e19};
  if (sms.raw("tensor_int8").exists()) profile.tensor_ops_int8 = sms.quantity("tensor_int8", any_rate);
  if (sms.raw("tensor_4bit").exists()) profile.tensor_flops_4bit = sms.quantity("tensor_4bit", any_rate);
  profile.cuda_core_flops = sms.quantity("fp32", positive_quantity(Dimension::flops, 1e19));
  profile.bytes_in_flight =
      static_cast<Bytes>(sms.quantity("bytes_in_flight", positive_quantity(Dimension::size, 1e9)));
}

GpuProfile read_profile(const config::Document& document) {
  const Value root = document.root();
  GpuProfile profile;
  profile.name = root.string("name");
  const Value aliases = root.at("aliases");
  if (aliases.exists()) {
    for (const Value& alias : aliases.items()) profile.aliases.push_back(alias.as_string());
  }
  if (const std::string interconnect = root.string("interconnect"); !interconnect.empty())
    profile.interconnect = load_interconnect(interconnect, profile.facts);
  read_memory(root.at("memory"), profile);
  read_l2(root.at("l2"), profile);
  read_sms(root.at("sm"), profile);
  FactReader launch(root.at("launch"), profile.facts);
  profile.graph_launch_latency = launch.quantity("graph", seconds());
  profile.stream_launch_latency = launch.quantity("stream", seconds());
  if (root.at("host_link").exists()) {
    FactReader link(root.at("host_link"), profile.facts);
    profile.host_bandwidth = link.quantity("bandwidth", positive_quantity(Dimension::bandwidth, 1e15));
  }
  if (launch.raw("host").exists()) profile.host_launch_time = launch.quantity("host", seconds());
  const Value kernels = root.at("attention_kernels");
  for (const Value& kernel : kernels.items()) {
    const AttentionKernel calibrated = kernel.is_map() ? read_attention_kernel(kernel, profile.facts)
                                                       : load_attention_kernel(kernel.as_string(), profile.facts);
    profile.attention_kernels.push_back(calibrated.at_clock(profile.clock));
  }
  if (profile.attention_kernels.empty()) kernels.error("expected at least one kernel");
  FactReader sms(root.at("sm"), profile.facts);
  profile.kernels = load_kernel_set(FactReader(root, profile.facts).text("kernel_set"), profile.facts);
  if (sms.raw("matmul_16bit").exists() && profile.kernels.matmul_share > 0 && profile.tensor_flops_16bit > 0) {
    const double reached = sms.quantity("matmul_16bit", positive_quantity(Dimension::flops, 1e19));
    profile.tensor_derating = std::min(1.0, reached / profile.tensor_flops_16bit / profile.kernels.matmul_share);
  }
  root.finish();
  document.throw_if_errors();
  return profile;
}

/// Reads no more than the names: a profile refers to a dozen other files.
bool has_alias(const std::string& path, const std::string& name) {
  const config::Document document = config::Document::load(path);
  const Value aliases = document.root().at("aliases");
  if (!aliases.exists()) return false;
  return std::ranges::any_of(aliases.items(),
                             [&](const Value& alias) { return alias.as_string() == lower_case(name); });
}

}  // namespace

const AttentionKernel* GpuProfile::find_attention_kernel(const std::string& wanted,
                                                         const DecodeAttentionWork& work) const {
  const std::string& framework = wanted.empty() ? attention_kernels.front().framework : wanted;
  const auto found = std::ranges::find_if(attention_kernels, [&](const AttentionKernel& kernel) {
    return kernel.name == framework || (kernel.framework == framework && kernel.scope.serves(work, num_sms));
  });
  return found == attention_kernels.end() ? nullptr : &*found;
}

const AttentionKernel& GpuProfile::attention_kernel(const std::string& wanted, const DecodeAttentionWork& work) const {
  if (const AttentionKernel* found = find_attention_kernel(wanted, work); found != nullptr) return *found;
  const std::string& framework = wanted.empty() ? attention_kernels.front().framework : wanted;
  std::vector<std::string> known;
  for (const AttentionKernel& kernel : attention_kernels) {
    for (const std::string& word : {kernel.framework, kernel.name}) {
      if (std::ranges::find(known, word) == known.end()) known.push_back(word);
    }
  }
  if (std::ranges::find(known, framework) == known.end()) {
    throw InputError(
        fmt::format("{}: no attention kernel \"{}\" (known: {})", name, framework, fmt::join(known, ", ")));
  }
  throw InputError(
      fmt::format("{}: no attention kernel of {} serves {}-bit operands, {} query heads a KV head, head_dim {}", name,
                  framework, work.math_bits, work.query_heads_per_task, work.head_dim));
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
        const std::string path = find_data_file("hw_profiles", candidate, {".yaml"});
        if (has_alias(path, name_or_path)) return read_profile(config::Document::load(path));
      }
    }
  }
  return read_profile(config::Document::load(find_data_file("hw_profiles", name_or_path, {".yaml"})));
}

std::vector<std::string> known_gpus() {
  return list_data_files("hw_profiles", {".yaml"});
}

}  // namespace kvtide::gpu
