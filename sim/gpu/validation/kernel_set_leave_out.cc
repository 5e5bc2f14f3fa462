#include "gpu/validation/kernel_set_leave_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <type_traits>

#include "base/error.h"
#include "gpu/constant_rate_memory.h"
#include "gpu/validation/constant_fit.h"
#include "gpu/validation/measured_row.h"

namespace kvtide::gpu {
namespace {

constexpr double kMaxMicroseconds = 1e12;

/// Rows of one operation.
struct Rows {
  std::string operation;
  std::vector<config::CsvTable> tables;
};

std::vector<double PrefillKernel::*> constants_of(const PrefillKernel& /*kernel*/) {
  return {&PrefillKernel::fixed_time, &PrefillKernel::task_time,         &PrefillKernel::append_time,
          &PrefillKernel::query_time, &PrefillKernel::tensor_efficiency, &PrefillKernel::scores_per_clock};
}

std::vector<double GemmKernel::*> constants_of(const GemmKernel& /*kernel*/) {
  return {&GemmKernel::fixed_time,        &GemmKernel::task_time, &GemmKernel::combine_time,
          &GemmKernel::tensor_efficiency, &GemmKernel::row_time,  &GemmKernel::host_time};
}

std::vector<double QuantizeKernel::*> constants_of(const QuantizeKernel& /*kernel*/) {
  return {&QuantizeKernel::fixed_time, &QuantizeKernel::task_time, &QuantizeKernel::l2_share,
          &QuantizeKernel::memory_share};
}

Rows rows_of(const GpuProfile& donor, const std::string& operation, const std::vector<std::string>& paths) {
  Rows rows{operation, {}};
  for (const std::string& path : paths) {
    const MeasuredFile file = parse_measured_file_name(path);
    if (file.operation == operation && load_gpu_profile(file.gpu).name == donor.name) {
      rows.tables.push_back(config::CsvTable::load(path));
    }
  }
  return rows;
}

/// Predicted and measured times of every row that is no difference of two; {0, 0} for the others.
std::vector<std::pair<double, double>> times(const GpuProfile& profile, const Rows& rows) {
  Gpu gpu(profile, std::make_unique<ConstantRateMemory>(profile.bandwidth, profile.read_efficiency));
  std::vector<std::pair<double, double>> found;
  for (const config::CsvTable& table : rows.tables) {
    for (std::size_t row = 0; row < table.num_rows(); ++row) {
      const RowPrediction prediction = predict_row(gpu, rows.operation, table, row);
      const double measured = table.number(row, "latency_us", -kMaxMicroseconds, kMaxMicroseconds);
      const bool counts = prediction.microseconds && !prediction.is_difference && measured > 0;
      found.emplace_back(counts ? *prediction.microseconds : 0, counts ? measured : 0);
    }
  }
  return found;
}

bool is_calibrated_on(const GpuProfile& profile, const std::string& kernel, const std::string& csv_name) {
  const std::string prefix = profile.kernels.name + "." + kernel + ".";
  return std::ranges::any_of(profile.facts, [&](const ProfileFact& fact) {
    return fact.key.starts_with(prefix) && fact.source.find("calibrated on:") != std::string::npos &&
           fact.source.find(csv_name) != std::string::npos;
  });
}

/// Fits `kernel`, an element of the set of `profile`, to the rows that it runs: those that a longer fixed time moves.
template <typename Kernel>
void fit_again(GpuProfile& profile, Kernel& kernel, const Rows& rows) {
  const Kernel start = kernel;
  const auto before = times(profile, rows);
  kernel.fixed_time += 1;
  const auto moved = times(profile, rows);
  kernel = start;
  std::vector<bool> is_own(before.size());
  for (std::size_t row = 0; row < before.size(); ++row) {
    is_own[row] = before[row].second > 0 && moved[row].first > before[row].first;
  }
  std::vector<double Kernel::*> constants;
  std::vector<double> values;
  for (double Kernel::*constant : constants_of(kernel)) {
    if (start.*constant <= 0) continue;
    constants.push_back(constant);
    values.push_back(start.*constant);
  }
  const auto put = [&](const std::vector<double>& tried) {
    for (std::size_t index = 0; index < constants.size(); ++index) kernel.*constants[index] = tried[index];
    if constexpr (!std::is_same_v<Kernel, QuantizeKernel>) {
      kernel.tensor_efficiency = std::min(kernel.tensor_efficiency, 1.0);
    }
  };
  put(fit_constants(values, [&](const std::vector<double>& tried) {
    put(tried);
    const auto now = times(profile, rows);
    std::vector<double> errors;
    for (std::size_t row = 0; row < now.size(); ++row) {
      if (is_own[row]) errors.push_back(std::log(now[row].first / now[row].second));
    }
    return errors;
  }));
}

/// Records of one operation: those of the left-out GPU are dropped, or fitted again where the donor has rows.
template <typename Kernel>
void forget(GpuProfile& profile, std::vector<Kernel> KernelSet::*list, const std::string& csv_name, const Rows& rows,
            const std::vector<std::string>& borrowed) {
  std::vector<Kernel>& kernels = profile.kernels.*list;
  std::erase_if(kernels,
                [&](const Kernel& kernel) { return std::ranges::find(borrowed, kernel.name) != borrowed.end(); });
  if (rows.tables.empty()) return;
  for (Kernel& kernel : kernels) {
    if (is_calibrated_on(profile, kernel.name, csv_name)) fit_again(profile, kernel, rows);
  }
}

/// Records of the donor's set whose every row stems from the left-out GPU: borrowed from it, or shared with nobody.
std::vector<std::string> records_of(const GpuProfile& donor, const std::string& csv_name) {
  std::vector<std::string> names;
  const std::string prefix = donor.kernels.name + ".";
  for (const ProfileFact& fact : donor.facts) {
    if (!fact.key.starts_with(prefix) || !fact.key.ends_with(".fixed_time")) continue;
    if (fact.source.starts_with("nearest architecture:") && fact.source.find(csv_name) != std::string::npos) {
      names.push_back(
          fact.key.substr(prefix.size(), fact.key.size() - prefix.size() - std::string(".fixed_time").size()));
    }
  }
  return names;
}

}  // namespace

KernelSet kernel_set_without(const GpuProfile& donor, const std::string& csv_name,
                             const std::vector<std::string>& paths) {
  if (csv_name.empty()) return donor.kernels;
  GpuProfile profile = donor;
  const std::vector<std::string> borrowed = records_of(donor, csv_name);
  forget(profile, &KernelSet::prefill, csv_name, rows_of(donor, "prefill_attn", paths), borrowed);
  forget(profile, &KernelSet::gemm, csv_name, rows_of(donor, "gemm", paths), borrowed);
  forget(profile, &KernelSet::quantize, csv_name, rows_of(donor, "quantize", paths), borrowed);
  return profile.kernels;
}

Interconnect interconnect_without(const GpuProfile& profile) {
  static const std::map<std::string, std::string> nearest{
      {"a100-sxm-80gb", "h100-sxm"}, {"h100-sxm", "a100-sxm-80gb"}, {"h200-sxm", "a100-sxm-80gb"},
      {"b300-sxm", "h100-sxm"},      {"rtx-pro-6000", "b60"},       {"b60", "rtx-pro-6000"},
  };
  const auto found = nearest.find(profile.name);
  if (found == nearest.end())
    throw InputError(fmt::format("{}: no neighbour for its interconnect is known", profile.name));
  Interconnect link = load_gpu_profile(found->second).interconnect;
  const Interconnect& own = profile.interconnect;
  link.name = own.name;
  link.kind = own.kind;
  link.max_ranks = own.max_ranks;
  link.link_bandwidth = own.link_bandwidth;
  link.cross_bandwidth = own.cross_bandwidth;
  return link;
}

}  // namespace kvtide::gpu
