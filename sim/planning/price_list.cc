#include "planning/price_list.h"

#include <algorithm>

#include "base/data_directory.h"
#include "base/error.h"
#include "gpu/gpu_profile.h"

namespace kvtide::planning {
namespace {

/// The profile's own name where `gpu` is an alias, else `gpu`: a file outside hw_profiles/ may carry that name.
std::string profile_name(const std::string& gpu) {
  const std::vector<std::string> known = gpu::known_gpus();
  if (std::ranges::find(known, gpu) != known.end()) return gpu;
  try {
    return gpu::load_gpu_profile(gpu).name;
  } catch (const InputError&) {
    return gpu;
  }
}

}  // namespace

PriceList PriceList::shipped() {
  const config::Document document =
      config::Document::load(find_data_file("hw_profiles/prices", "gpu-hours", {".yaml"}));
  PriceList list;
  list.read(document.root(), "");
  document.root().finish();
  document.throw_if_errors();
  return list;
}

void PriceList::read(const config::Value& prices, const std::string& source) {
  if (!prices.exists()) return;
  for (const std::string& gpu : prices.keys()) {
    const config::Value entry = prices.at(gpu);
    const config::QuantityRule rule{.dimension = Dimension::money_rate, .fallback = {}, .min = 0, .max = 1e6};
    GpuPrice price;
    if (entry.is_map()) {
      price.usd_per_hour = entry.quantity("value", rule);
      price.date = entry.string("date", "no date");
      price.source = entry.string("source", source);
    } else {
      price = {.usd_per_hour = entry.as_quantity(rule), .date = "no date", .source = source};
    }
    prices_[profile_name(gpu)] = price;
  }
}

std::optional<GpuPrice> PriceList::find(const std::string& gpu) const {
  const auto found = prices_.find(gpu);
  return found == prices_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace kvtide::planning
