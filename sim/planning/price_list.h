#pragma once
// What a GPU costs an hour, when that was so, and who says it.

#include <map>
#include <optional>
#include <string>

#include "config/yaml_value.h"

namespace kvtide::planning {

struct GpuPrice {
  double usd_per_hour = 0;
  std::string date;    ///< "2026-03-10"
  std::string source;  ///< "the plan" where the user gave it
};

class PriceList {
 public:
  /// The shipped list, hw_profiles/prices/gpu-hours.yaml. @throws InputError
  [[nodiscard]] static PriceList shipped();

  /// Entries of `prices: {h100-sxm: "2.50 USD/h", l40s: {value: "0.79 USD/h", date: "2026-03-10"}}` replace those there are. Errors are
  /// recorded in the document.
  void read(const config::Value& prices, const std::string& source);

  /// None where nobody named a price.
  [[nodiscard]] std::optional<GpuPrice> find(const std::string& gpu) const;

 private:
  std::map<std::string, GpuPrice> prices_;
};

}  // namespace kvtide::planning
