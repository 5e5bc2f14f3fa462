#include "gpu/validation/measured_targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

namespace kvtide::gpu {
namespace {

/// Percent; 0: no target.
struct Target {
  const char* subject;
  const char* operation;
  const char* part;  ///< of the operation; empty: all
  double median;
  double p90;
  double big_median;
};

constexpr Target kTargets[] = {
    {"decode attention", "decode_attn", "", 6, 25, 3},
    {"prefill attention", "prefill_attn", "", 15, 0, 0},
    {"GEMM", "gemm", "", 20, 0, 0},
    {"cast to 8 bit", "quantize", "", 20, 0, 0},
    {"all-reduce", "comm", "all_reduce", 20, 0, 0},
    {"latent decode attention", "mla_decode", "", 12, 0, 0},
    {"sparse modules", "compressed_decode", "", 25, 0, 0},
};

/// Decode attention of a GPU whose rows were left out: of all rows, and of the big ones.
struct LeftOutTarget {
  double median;
  double big_median;
};

const std::map<std::string, LeftOutTarget>& left_out_targets() {
  static const std::map<std::string, LeftOutTarget> targets{
      {"h100_sxm", {12, 6}},  {"h200_sxm", {12, 6}}, {"a100_sxm", {20, 10}}, {"rtx_pro_6000_server", {20, 10}},
      {"b300_sxm", {20, 10}}, {"b60", {0, 10}},  // another software floor: judged on its big rows
  };
  return targets;
}

using Rows = std::vector<const MeasuredRowResult*>;

double statistic_of(const Rows& rows, bool is_p90) {
  std::vector<double> errors;
  for (const MeasuredRowResult* row : rows) errors.push_back((row->predicted_us / row->measured_us - 1) * 100);
  const ErrorStatistics statistics = error_statistics(std::move(errors), 0);
  return is_p90 ? statistics.ape_p90 : statistics.ape_median;
}

/// "b60 vllm 6.5 %": the group of the largest figure.
std::string worst_group(const Rows& rows, bool is_p90) {
  std::map<std::string, Rows> groups;
  for (const MeasuredRowResult* row : rows) groups[row->gpu + " " + row->framework].push_back(row);
  std::string worst;
  double largest = -1;
  for (const auto& [name, members] : groups) {
    const double found = statistic_of(members, is_p90);
    if (found > largest) {
      largest = found;
      worst = fmt::format("{} {:.1f} %", name, found);
    }
  }
  return worst;
}

void judge(const std::string& subject, const std::string& statistic, double target, const Rows& rows,
           std::vector<TargetResult>& results) {
  if (target <= 0 || rows.empty()) return;
  const bool is_p90 = statistic == "p90";
  results.push_back({subject, statistic, target, statistic_of(rows, is_p90), static_cast<std::int64_t>(rows.size()),
                     worst_group(rows, is_p90)});
}

Rows big_ones(const Rows& rows) {
  Rows big;
  std::ranges::copy_if(rows, std::back_inserter(big), &MeasuredRowResult::is_big);
  return big;
}

}  // namespace

std::vector<TargetResult> judge_targets(const MeasuredReport& report, bool is_left_out) {
  std::vector<TargetResult> results;
  for (const Target& target : kTargets) {
    Rows rows;
    for (const MeasuredRowResult& row : report.rows) {
      const bool counts = row.operation == target.operation && (*target.part == 0 || row.part == target.part);
      if (counts && row.measured_us > 0 && std::isfinite(row.predicted_us)) rows.push_back(&row);
    }
    if (!is_left_out) {
      judge(target.subject, "median", target.median, rows, results);
      judge(target.subject, "p90", target.p90, rows, results);
      judge(target.subject, "big median", target.big_median, big_ones(rows), results);
      continue;
    }
    std::map<std::string, Rows> by_gpu;
    for (const MeasuredRowResult* row : rows) by_gpu[row->gpu].push_back(row);
    for (const auto& [gpu, members] : by_gpu) {
      const auto own = left_out_targets().find(gpu);
      if (std::string(target.operation) != "decode_attn" || own == left_out_targets().end()) continue;
      const std::string subject = fmt::format("{}, {} left out", target.subject, gpu);
      judge(subject, "median", own->second.median, members, results);
      judge(subject, "big median", own->second.big_median, big_ones(members), results);
    }
  }
  std::ranges::stable_sort(results, [](const TargetResult& one, const TargetResult& other) {
    if (one.is_met() != other.is_met()) return !one.is_met();
    return !one.is_met() && one.found / one.target > other.found / other.target;
  });
  return results;
}

}  // namespace kvtide::gpu
