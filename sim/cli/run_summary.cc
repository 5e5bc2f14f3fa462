#include "cli/run_summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "base/quoted_text.h"
#include "base/units.h"
#include "cli/phase_plot.h"
#include "cli/table.h"
#include "experiment/columns.h"
#include "experiment/experiment.h"
#include "hdf5/hdf5_file.h"
#include "planning/text_spread.h"

namespace kvtide::cli {
namespace {

/// /summary as text and numbers by column name.
struct Summary {
  std::vector<std::string> order;  ///< column names: swept keys first
  std::map<std::string, std::vector<double>> numbers;
  std::map<std::string, std::vector<std::int64_t>> integers;  ///< beside numbers: a seed has more digits than those
  std::map<std::string, std::vector<std::string>> texts;
  std::vector<std::int64_t> run_numbers;  ///< of the whole sweep: a shard's file does not begin at 0
  std::size_t num_runs = 0;

  [[nodiscard]] double number(const std::string& column, std::size_t run) const {
    const auto found = numbers.find(column);
    return found == numbers.end() ? std::nan("") : found->second[run];
  }
  [[nodiscard]] std::string text(const std::string& column, std::size_t run) const {
    const auto found = texts.find(column);
    return found == texts.end() ? "" : found->second[run];
  }
};

Summary read_summary(const hdf5::InputFile& file) {
  Summary summary;
  std::vector<std::string> known;
  for (const std::string& name : file.children("/summary")) {
    const std::string path = "/summary/" + name;
    if (file.is_group(path)) continue;
    if (name == "run") {
      summary.run_numbers = file.read_integers(path);
      summary.num_runs = summary.run_numbers.size();
      continue;
    }
    (experiment::find_column(name) == nullptr ? summary.order : known).push_back(name);
    if (file.info(path).type == hdf5::ElementType::string) {
      summary.texts[name] = file.read_strings(path);
    } else {
      summary.numbers[name] = file.read_doubles(path);
      if (file.info(path).type == hdf5::ElementType::int64) summary.integers[name] = file.read_integers(path);
    }
  }
  summary.order.insert(summary.order.end(), known.begin(), known.end());
  return summary;
}

std::string percent(double share) {
  return std::isfinite(share) ? fmt::format("{:.1f}%", 100 * share) : "-";
}

/// "2.26 bit" of metric bits_lost, else a share.
std::string loss_cell(const std::string& metric, double loss) {
  return metric == "bits_lost" && std::isfinite(loss) ? fmt::format("{:.3g} bit", loss) : percent(loss);
}

std::string plain(double value) {
  if (!std::isfinite(value)) return "-";
  return value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{:g}", value);
}

std::string short_title(const std::string& swept_key) {
  const std::size_t dot = swept_key.rfind('.');
  return dot == std::string::npos ? swept_key : swept_key.substr(dot + 1);
}

std::string period_cell(const Summary& summary, std::size_t run) {
  const std::string kind = summary.text("period_kind", run);
  if (kind.empty()) return "-";
  return kind == "none" ? "none" : plain(summary.number("period", run));
}

std::string loss_mean_cell(const Summary& summary, std::size_t run) {
  const double error = summary.number("loss_mean_error", run);  // only shares are sampled: "4.1% +- 0.32%"
  return loss_cell(summary.text("loss_metric", run), summary.number("loss_mean", run)) +
         (error > 0 ? fmt::format(" +- {:.2g}%", 100 * error) : "");
}

std::string number_with(double value, const char* unit) {
  return std::isfinite(value) ? fmt::format("{:.3g}{}", value, unit) : "-";
}

struct ShownColumn {
  const char* title;
  std::string (*cell)(const Summary& summary, std::size_t run);  ///< "-" where it was not measured
  bool is_optional = false;                                      ///< left out of a table that it would make too wide
};

constexpr std::size_t kWidest = 140;  ///< characters of a line, with the columns that are optional

constexpr std::array kShown{
    ShownColumn{"memory saved",
                [](const Summary& of, std::size_t run) { return percent(of.number("memory_saving", run)); }},
    ShownColumn{"decode speed-up",
                [](const Summary& of, std::size_t run) {
                  const double speedup = of.number("decode_speedup", run);
                  return std::isfinite(speedup) ? fmt::format("{:.2f}x", speedup) : std::string("-");
                }},
    ShownColumn{"most sequences",
                [](const Summary& of, std::size_t run) { return plain(of.number("max_sequences", run)); }},
    ShownColumn{"step then",
                [](const Summary& of, std::size_t run) {
                  return number_with(1e-3 * of.number("max_sequences_step_us", run), " ms");
                },
                true},
    ShownColumn{"requests/s",
                [](const Summary& of, std::size_t run) { return number_with(of.number("requests_per_s", run), ""); }},
    ShownColumn{"goodput/s",
                [](const Summary& of, std::size_t run) { return number_with(of.number("goodput_per_s", run), ""); }},
    ShownColumn{"TTFT p95",
                [](const Summary& of, std::size_t run) { return number_with(of.number("ttft_p95_s", run), " s"); }},
    ShownColumn{"TPOT p95", [](const Summary& of,
                               std::size_t run) { return number_with(1e3 * of.number("tpot_p95_s", run), " ms"); }},
    ShownColumn{"loss mean", &loss_mean_cell},
    ShownColumn{"loss worst",
                [](const Summary& of, std::size_t run) {
                  return loss_cell(of.text("loss_metric", run), of.number("loss_worst", run));
                }},
    ShownColumn{"period", &period_cell},
};

bool is_measured(const Summary& summary, const ShownColumn& column) {
  for (std::size_t run = 0; run < summary.num_runs; ++run) {
    if (column.cell(summary, run) != "-") return true;
  }
  return false;
}

Table table_of(const Summary& summary, const std::vector<ShownColumn>& measured) {
  std::vector<Table::Column> columns{{"run", Align::right}};
  std::vector<std::string> swept;
  for (const std::string& name : summary.order) {
    if (experiment::find_column(name) != nullptr) continue;
    swept.push_back(name);
    columns.push_back({short_title(name), Align::left});
  }
  for (const ShownColumn& column : measured) columns.push_back({column.title, Align::right});
  std::vector<std::string> how_surely;
  for (std::size_t run = 0; run < summary.num_runs; ++run) {
    const std::string status = summary.text("status", run);
    how_surely.push_back(status == "ok" ? summary.text("period_certainty", run)
                                        : fmt::format("{}: {}", status, summary.text("status_reason", run)));
  }
  const bool says_how_surely = std::ranges::any_of(how_surely, [](const std::string& text) { return !text.empty(); });
  if (says_how_surely) columns.push_back({"how surely", Align::left});
  Table table(columns);
  for (std::size_t run = 0; run < summary.num_runs; ++run) {
    std::vector<std::string> row{fmt::format("{}", summary.run_numbers[run])};
    for (const std::string& name : swept) {
      row.push_back(summary.texts.contains(name)      ? summary.text(name, run)
                    : summary.integers.contains(name) ? fmt::format("{}", summary.integers.at(name)[run])
                                                      : plain(summary.number(name, run)));
    }
    for (const ShownColumn& column : measured) row.push_back(column.cell(summary, run));
    if (says_how_surely) row.push_back(how_surely[run]);
    table.add_row(row);
  }
  return table;
}

/// Columns that were measured, the optional ones where every line then stays within kWidest.
std::vector<ShownColumn> shown_columns(const Summary& summary) {
  std::vector<ShownColumn> shown;
  std::ranges::copy_if(kShown, std::back_inserter(shown),
                       [&](const ShownColumn& column) { return is_measured(summary, column); });
  if (table_of(summary, shown).width() > kWidest) std::erase_if(shown, &ShownColumn::is_optional);
  return shown;
}

bool has_number(const Summary& summary, const char* column) {
  for (std::size_t run = 0; run < summary.num_runs; ++run) {
    if (std::isfinite(summary.number(column, run))) return true;
  }
  return false;
}

/// What the table's titles mean, those that it has.
std::string legend(const Summary& summary, const std::vector<ShownColumn>& shown) {
  std::string text;
  if (has_number(summary, "memory_saving"))
    text += "memory saved: of the KV cache, metadata and page rounding included. ";
  if (has_number(summary, "loss_mean")) {
    std::set<std::string> metrics;
    for (std::size_t run = 0; run < summary.num_runs; ++run) metrics.insert(summary.text("loss_metric", run));
    metrics.erase("");
    const bool is_mass = metrics.empty() || metrics == std::set<std::string>{"mass_loss"};
    text += fmt::format(
        "loss: {},\nmean (weighted by attention) and worst span. ",
        is_mass ? "share of a position's attention that is lost" : fmt::format("{}", fmt::join(metrics, ", ")));
  }
  if (has_number(summary, "max_sequences")) text += "most sequences: of this context at once. ";
  if (std::ranges::any_of(shown, &ShownColumn::is_optional))
    text += "step then: of that batch,\nthe time between two tokens of each sequence. ";
  if (has_number(summary, "requests_per_s"))
    text +=
        "TTFT: time to the first token, TPOT: between\ntokens after it; goodput: requests within every objective of "
        "slo. ";
  return text + "kvtide explain COLUMN tells more.\n";
}

/// What the columns say of the cache without compression; empty when that was not measured or is not the same for all.
std::string uncompressed_line(const Summary& summary) {
  if (summary.num_runs == 0 || !std::isfinite(summary.number("kv_bytes_full", 0))) return "";
  for (const char* column : {"kv_bytes_full", "max_sequences_full", "decode_step_us_full"}) {
    for (std::size_t run = 1; run < summary.num_runs; ++run) {
      const double first = summary.number(column, 0);
      const double other = summary.number(column, run);
      if (first != other && !(std::isnan(first) && std::isnan(other))) return "";
    }
  }
  std::string line =
      fmt::format("Without compression: {} of KV a sequence", format_bytes(summary.number("kv_bytes_full", 0)));
  if (const double step = summary.number("decode_step_us_full", 0); std::isfinite(step))
    line += fmt::format(", {:.2f} ms a decode step", step * 1e-3);
  line += fmt::format("; {} sequences at once", plain(summary.number("max_sequences_full", 0)));
  if (const double step = summary.number("max_sequences_step_us_full", 0); std::isfinite(step))
    line += fmt::format(", {:.2f} ms a decode step then", step * 1e-3);
  return line + ".\n";
}

/// Where the runs leave what kvtide was compared with: each sentence once, or how many there are where they are many.
std::string extrapolation_text(const Summary& summary) {
  constexpr std::size_t kMostShown = 3;
  std::set<std::string> sentences;
  for (std::size_t run = 0; run < summary.num_runs; ++run) {
    const std::string text = summary.text("extrapolates", run);
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find("; ", begin), text.size());
      sentences.insert(text.substr(begin, end - begin));
      begin = end + 2;
    }
  }
  if (sentences.size() > kMostShown) {
    return fmt::format(
        "extrapolates: in {} ways beyond what kvtide was compared with; the report and the column extrapolates tell\n",
        sentences.size());
  }
  std::string out;
  for (const std::string& sentence : sentences) out += fmt::format("extrapolates: {}\n", sentence);
  return out;
}

/// Each warning once, with the runs that have it where there are several.
std::string warnings_text(const Summary& summary) {
  std::map<std::string, std::vector<std::int64_t>> runs_of;
  for (std::size_t run = 0; run < summary.num_runs; ++run) {
    if (const std::string warning = summary.text("warnings", run); !warning.empty())
      runs_of[warning].push_back(summary.run_numbers[run]);
  }
  constexpr std::size_t kMostNamed = 4;
  std::string out;
  for (auto& [warning, runs] : runs_of) {
    const std::size_t others = runs.size() - std::min(runs.size(), kMostNamed);
    runs.resize(runs.size() - others);
    out += fmt::format("warning: {}{}\n", warning,
                       summary.num_runs == 1 ? ""
                                             : fmt::format(" (run {}{})", fmt::join(runs, ", "),
                                                           others > 0 ? fmt::format(" and {} more", others) : ""));
  }
  return out;
}

/// The run whose phase profile is worth a look: the one with a period whose worst loss its mean hides most.
std::optional<std::size_t> run_to_plot(const Summary& summary) {
  std::optional<std::size_t> best;
  for (std::size_t run = 0; run < summary.num_runs; ++run) {
    if (!std::isfinite(summary.number("period", run))) continue;
    if (!best || summary.number("loss_worst_over_mean", run) > summary.number("loss_worst_over_mean", *best))
      best = run;
  }
  return best;
}

}  // namespace

std::string run_summary_text(const std::string& path, bool use_color) {
  const hdf5::InputFile file(path);
  const Summary summary = read_summary(file);
  const std::vector<ShownColumn> shown = shown_columns(summary);
  std::string out = table_of(summary, shown).text() + uncompressed_line(summary);
  out += warnings_text(summary);
  out += extrapolation_text(summary);
  const std::optional<std::size_t> plotted = run_to_plot(summary);
  if (plotted) {
    const std::string group = fmt::format("/runs/{}/phase/", experiment::run_name(summary.run_numbers[*plotted]));
    out += fmt::format("\nRun {} by place within its period of {} tokens (0: first token of a block)\n",
                       summary.run_numbers[*plotted], plain(summary.number("period", *plotted)));
    for (const auto& [name, title] :
         {std::pair("loss", "mean loss"), std::pair("jump_share", "share of the loss's jumps")}) {
      if (!file.exists(group + name)) continue;
      const std::string plot = phase_plot(file.read_doubles(group + name), 96, 4);
      out += fmt::format("{}\n{}", title, use_color ? fmt::format("\033[36m{}\033[0m", plot) : plot);
    }
  }
  if (const std::string spread = planning::text_spread_sentence(); !spread.empty() && has_number(summary, "loss_mean"))
    out += fmt::format("\nlosses are {}.\n", spread);
  return out + "\n" + legend(summary, shown);
}

std::string run_summary_json(const std::string& path) {
  const hdf5::InputFile file(path);
  const Summary summary = read_summary(file);
  std::vector<std::string> rows;
  for (std::size_t run = 0; run < summary.num_runs; ++run) {
    std::vector<std::string> cells{fmt::format("\"run\": {}", summary.run_numbers[run])};
    for (const std::string& name : summary.order) {
      const bool is_text = summary.texts.contains(name);
      const double number = is_text ? 0 : summary.number(name, run);
      cells.push_back(fmt::format("{}: {}", quoted_text(name),
                                  is_text                           ? quoted_text(summary.text(name, run))
                                  : summary.integers.contains(name) ? fmt::format("{}", summary.integers.at(name)[run])
                                  : std::isfinite(number)           ? fmt::format("{}", number)
                                                                    : "null"));
    }
    rows.push_back(fmt::format("{{{}}}", fmt::join(cells, ", ")));
  }
  return fmt::format("{{\"file\": {}, \"runs\": [{}]}}", quoted_text(path), fmt::join(rows, ", "));
}

}  // namespace kvtide::cli
