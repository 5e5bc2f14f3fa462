#include "cli/validate_serving.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/json_object.h"
#include "base/quoted_text.h"
#include "cli/table.h"
#include "serving/published_runs.h"

namespace kvtide::cli {
namespace {

using serving::PreemptionRow;
using serving::QuantizedRow;

void print_json(const std::vector<PreemptionRow>& preemptions, const std::vector<QuantizedRow>& quantized) {
  std::vector<std::string> counts, caches;
  for (const PreemptionRow& row : preemptions) {
    counts.push_back(
        fmt::format(R"({{"watermark": {}, "measured": {}, "predicted": {}, "low": {}, "high": {}, "inside": {}}})",
                    json_number(row.watermark), json_number(row.measured), json_number(row.mean), json_number(row.low),
                    json_number(row.high), row.is_inside()));
  }
  for (const QuantizedRow& row : quantized) {
    const std::string head = fmt::format(R"({{"source": {}, "model": {}, "gpu": {}, "method": {}, "input_tokens": {})",
                                         quoted_text(row.source), quoted_text(row.model), quoted_text(row.gpu),
                                         quoted_text(row.method), row.input_tokens);
    if (!row.not_predicted.empty()) {
      caches.push_back(fmt::format(R"({}, "not_predicted": {}}})", head, quoted_text(row.not_predicted)));
    } else {
      caches.push_back(fmt::format(
          R"({}, "recipe": {}, "capacity_ratio": {}, "predicted_capacity_ratio": {}, "throughput_ratio": {}, )"
          R"("predicted_throughput_ratio": {}}})",
          head, quoted_text(row.recipe), json_number(row.capacity_measured), json_number(row.capacity_predicted),
          json_number(row.throughput_measured), json_number(row.throughput_predicted)));
    }
  }
  fmt::print("{{\"preemptions\": [\n  {}\n],\n\"quantized\": [\n  {}\n]}}\n", fmt::join(counts, ",\n  "),
             fmt::join(caches, ",\n  "));
}

}  // namespace

int validate_serving(const Arguments& arguments) {
  if (arguments.positional.size() != 2)
    throw InputError("kvtide validate serving: expected the folder of published figures");
  const std::string& folder = arguments.positional[1];
  const auto preemptions = serving::predict_preemptions(folder + "/preemption_watermark.csv");
  const auto quantized = serving::predict_quantized(folder + "/kv_quant_serving.csv");
  if (arguments.has("json")) {
    print_json(preemptions, quantized);
    return kDone;
  }
  Table counts({{"watermark", Align::right},
                {"preemptions", Align::right},
                {"predicted, mean", Align::right},
                {"10 seeds", Align::left},
                {"inside, widened 15 %", Align::left}});
  for (const PreemptionRow& row : preemptions) {
    counts.add_row({fmt::format("{:.0f} %", 100 * row.watermark), fmt::format("{:.0f}", row.measured),
                    fmt::format("{:.0f}", row.mean), fmt::format("{:.0f} to {:.0f}", row.low, row.high),
                    row.is_inside() ? "yes" : "no"});
  }
  fmt::print("{}\n", counts.text());
  Table caches({{"model, GPU", Align::left},
                {"method", Align::left},
                {"input", Align::right},
                {"capacity x", Align::right},
                {"predicted", Align::right},
                {"throughput x", Align::right},
                {"predicted", Align::right},
                {"kernels", Align::left}});
  for (const QuantizedRow& row : quantized) {
    const bool is_predicted = row.not_predicted.empty();
    const auto cell = [&](double value) { return is_predicted ? fmt::format("{:.3f}", value) : std::string("-"); };
    caches.add_row({fmt::format("{}, {}", row.model, row.gpu), row.method, fmt::format("{}", row.input_tokens),
                    fmt::format("{:.2f}", row.capacity_measured), cell(row.capacity_predicted),
                    fmt::format("{:.3f}", row.throughput_measured), cell(row.throughput_predicted),
                    is_predicted ? row.recipe : row.not_predicted});
  }
  fmt::print("{}", caches.text());
  return kDone;
}

}  // namespace kvtide::cli
