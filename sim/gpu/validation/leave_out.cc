#include "gpu/validation/leave_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "gpu/validation/kernel_calibration.h"
#include "gpu/validation/kernel_set_leave_out.h"
#include "gpu/validation/measured_row.h"

namespace kvtide::gpu {
namespace {

/// Does any source of the kernel's facts name the rows of a GPU ("h100_sxm")?
bool is_calibrated_on(const GpuProfile& profile, const std::string& kernel, const std::string& csv_name) {
  return std::ranges::any_of(profile.facts, [&](const ProfileFact& fact) {
    return fact.key.starts_with(kernel + ".") && fact.source.find("calibrated on:") != std::string::npos &&
           fact.source.find(csv_name) != std::string::npos;
  });
}

/// The work of a row of decode_attn or mla_decode.
std::optional<DecodeAttentionWork> attention_row(const GpuProfile& profile, const std::string& operation,
                                                 const config::CsvTable& table, std::size_t row) {
  return operation == "mla_decode" ? mla_decode_row(profile, table, row) : decode_attention_row(profile, table, row);
}

/// Rows of the measured files that `kernel` serves on the donor.
std::vector<CalibrationRow> rows_of(const GpuProfile& donor, const AttentionKernel& kernel,
                                    const std::vector<std::string>& paths) {
  std::vector<CalibrationRow> rows;
  for (const std::string& path : paths) {
    const MeasuredFile file = parse_measured_file_name(path);
    const std::string operation = kernel.framework.starts_with("mla-") ? "mla_decode" : "decode_attn";
    if (file.operation != operation || load_gpu_profile(file.gpu).name != donor.name) continue;
    const config::CsvTable table = config::CsvTable::load(path);
    for (std::size_t row = 0; row < table.num_rows(); ++row) {
      const std::optional<DecodeAttentionWork> work = attention_row(donor, operation, table, row);
      const double measured = table.number(row, "latency_us", -1e12, 1e12);
      if (!work || measured <= 0) continue;
      try {
        if (donor.attention_kernel(work->kernel, *work).name == kernel.name) rows.push_back({0, *work, measured});
      } catch (const InputError&) {
        // Served by no kernel: no row of this one.
      }
    }
  }
  return rows;
}

/// Both frameworks run trtllm-gen on HBM Blackwell: warp-specialized kernels fed by TMA, of which FlashAttention-3 is the
/// nearest on Hopper. Blackwell's tensor cores take an 8-bit V in either layout (PTX ISA, tcgen05.mma), so its 16-bit
/// recipe serves fp8 too, and Hopper's transposing one has no place.
void keep_what_blackwell_resembles(GpuProfile& hopper) {
  std::vector<AttentionKernel> kernels;
  for (const char* framework : {"vllm", "trtllm"}) {
    for (AttentionKernel kernel : hopper.attention_kernels) {
      if (kernel.framework != "vllm" || kernel.scope.math_bits == 8) continue;
      if (kernel.scope.min_head_dim > 256) continue;  // Hopper's way out for heads that FlashAttention-3 does not take
      kernel.framework = framework;
      kernel.scope.math_bits = 0;
      if (kernel.scope.max_head_dim == 256) kernel.scope.max_head_dim = KernelScope{}.max_head_dim;
      kernels.push_back(kernel);
    }
  }
  for (const AttentionKernel& kernel : hopper.attention_kernels) {
    if (kernel.framework.starts_with("mla-")) kernels.push_back(kernel);
  }
  hopper.attention_kernels = std::move(kernels);
}

/// SGLang runs FlashAttention-3 on Ampere as vLLM does on Hopper, so Hopper's recipe stands in for it, not the
/// FlashAttention-2 of the other neighbour. Its tile there is published: 112 entries (hopper/tile_size.h, sm8x, varlen).
void append_flash_attention_3(const std::string& framework, std::vector<AttentionKernel>& kernels) {
  for (AttentionKernel kernel : load_gpu_profile("h100-sxm").attention_kernels) {
    if (kernel.framework != "vllm" || kernel.scope.math_bits == 8) continue;
    kernel.framework = framework;
    kernel.tiles = {{.head_dim = 128, .entries = 112}};
    kernel.max_splits = 128;
    kernels.push_back(kernel);
  }
}

/// Kernels of `donor` under every framework that the GPU has; a framework that the donor does not run gets the donor's
/// default kernels.
void append_kernels(const GpuProfile& donor, const std::vector<std::string>& frameworks,
                    std::vector<AttentionKernel>& kernels) {
  for (const std::string& framework : frameworks) {
    const bool is_known = std::ranges::any_of(
        donor.attention_kernels, [&](const AttentionKernel& kernel) { return kernel.framework == framework; });
    for (AttentionKernel kernel : donor.attention_kernels) {
      if (kernel.framework != (is_known ? framework : donor.attention_kernels.front().framework)) continue;
      if (!is_known && framework.starts_with("mla-")) continue;
      kernel.framework = framework;
      kernels.push_back(kernel);
    }
  }
}

/// Measured fp8 rows want an 8-bit kernel where the GPU has the tensor cores. Of a framework whose donors have none
/// (Ampere), the 16-bit recipe serves both.
void stand_in_for_8bit(std::vector<AttentionKernel>& kernels, const std::string& framework) {
  const auto is_own = [&](const AttentionKernel& kernel) { return kernel.framework == framework; };
  if (std::ranges::any_of(kernels, [&](const auto& each) { return is_own(each) && each.scope.math_bits != 16; }))
    return;
  for (AttentionKernel& kernel : kernels) {
    if (is_own(kernel)) kernel.scope.math_bits = 0;
  }
}

const std::map<std::string, std::vector<std::string>>& neighbours() {
  // A sibling of the architecture where there is one; else FlashAttention-2 runs on both Ampere and GDDR7 Blackwell,
  // TensorRT-LLM's kernels for Hopper on both Blackwells.
  static const std::map<std::string, std::vector<std::string>> nearest{
      {"h100-sxm", {"h200-sxm"}},
      {"h200-sxm", {"h100-sxm"}},
      {"b300-sxm", {"h100-sxm"}},
      {"a100-sxm-80gb", {"rtx-pro-6000"}},
      {"rtx-pro-6000", {"a100-sxm-80gb", "h100-sxm"}},
      {"b60", {"a100-sxm-80gb"}},
  };
  return nearest;
}

}  // namespace

bool has_rows_to_leave_out(const std::string& profile_name) {
  return neighbours().contains(profile_name);
}

std::vector<std::string> nearest_gpus(const std::string& profile_name) {
  const auto found = neighbours().find(profile_name);
  if (found == neighbours().end()) {
    std::vector<std::string> names;
    for (const auto& [name, donors] : neighbours()) names.push_back(name);
    throw InputError(fmt::format("--leave-out {}: expected one of {}, or each", profile_name, fmt::join(names, ", ")));
  }
  return found->second;
}

GpuProfile leave_out(const std::string& gpu, const std::vector<std::string>& paths) {
  GpuProfile profile = load_gpu_profile(gpu);
  std::vector<std::string> frameworks;
  for (const AttentionKernel& kernel : profile.attention_kernels) {
    if (std::ranges::find(frameworks, kernel.framework) == frameworks.end()) frameworks.push_back(kernel.framework);
  }
  std::string csv_name;  // "h100_sxm": how sources and files spell the GPU
  for (const std::string& path : paths) {
    const MeasuredFile file = parse_measured_file_name(path);
    if (load_gpu_profile(file.gpu).name == profile.name) csv_name = file.gpu;
  }
  std::vector<AttentionKernel> kernels;
  bool is_first = true;
  for (const std::string& name : nearest_gpus(profile.name)) {
    GpuProfile donor = load_gpu_profile(name);
    for (AttentionKernel& kernel : donor.attention_kernels) {
      if (csv_name.empty() || !is_calibrated_on(donor, kernel.name, csv_name)) continue;
      const std::vector<CalibrationRow> rows = rows_of(donor, kernel, paths);
      if (!rows.empty()) kernel = calibrate_kernel(kernel, {donor}, rows);
    }
    if (profile.name == "b300-sxm") keep_what_blackwell_resembles(donor);
    std::vector<std::string> missing;
    for (const std::string& framework : frameworks) {
      const bool donor_runs_it = std::ranges::any_of(
          donor.attention_kernels, [&](const AttentionKernel& kernel) { return kernel.framework == framework; });
      const bool is_done =
          std::ranges::any_of(kernels, [&](const AttentionKernel& kernel) { return kernel.framework == framework; });
      // A later donor fills in what the first does not run, and the first fills in what nobody runs.
      if (!is_done && donor_runs_it) missing.push_back(framework);
    }
    append_kernels(donor, missing, kernels);
    if (is_first) {
      profile.read_efficiency = donor.read_efficiency;
      profile.host_launch_time = 0;
      is_first = false;
    }
  }
  const GpuProfile donor = load_gpu_profile(nearest_gpus(profile.name).front());
  std::vector<std::string> unknown;
  if (profile.name == "a100-sxm-80gb") append_flash_attention_3("sglang", kernels);
  for (const std::string& framework : frameworks) {
    if (std::ranges::none_of(kernels, [&](const AttentionKernel& kernel) { return kernel.framework == framework; })) {
      unknown.push_back(framework);
    }
  }
  append_kernels(donor, unknown, kernels);
  for (const std::string& framework : frameworks) stand_in_for_8bit(kernels, framework);
  for (AttentionKernel& kernel : kernels) kernel = kernel.at_clock(profile.clock);
  profile.attention_kernels = std::move(kernels);
  const double own_share = profile.kernels.matmul_share;
  profile.kernels = kernel_set_without(donor, csv_name, paths);
  if (own_share > 0 && profile.kernels.matmul_share > 0) {
    profile.tensor_derating = std::min(1.0, profile.tensor_derating * own_share / profile.kernels.matmul_share);
  }
  profile.interconnect = interconnect_without(profile);
  return profile;
}

}  // namespace kvtide::gpu
