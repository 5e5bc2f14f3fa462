#include "experiment/head_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/whole_file.h"

namespace kvtide::experiment {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 26;
constexpr std::int64_t kMost = 4096;
constexpr double kLargest = 1e30;  ///< sums of so many stay finite

/// Reads a text from left to right; every message names file and line.
class Scanner {
 public:
  Scanner(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  [[noreturn]] void fail(const std::string& message) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    throw InputError(fmt::format("{}:{}: {}", path_, line, message));
  }
  void skip_blanks(bool and_lines = true) {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0 &&
           (and_lines || text_[at_] != '\n'))
      ++at_;
  }
  [[nodiscard]] bool is_at_end() const { return at_ == text_.size(); }
  [[nodiscard]] char next() const { return is_at_end() ? '\0' : text_[at_]; }
  /// Whether the next character is `c`, which is then behind us.
  bool take(char c) {
    if (next() != c || is_at_end()) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    skip_blanks();
    if (!take(c)) fail(fmt::format("expected '{}', found {}", c, found()));
  }
  /// What stands here, for a message.
  [[nodiscard]] std::string found() const {
    if (is_at_end()) return "the end of the file";
    const std::size_t end = text_.find_first_of(" \t\r\n,]}:", at_);
    constexpr std::size_t kMostShown = 40;
    const std::size_t size = std::clamp<std::size_t>(std::min(end, text_.size()) - at_, 1, kMostShown);
    return fmt::format("\"{}\"", text_.substr(at_, size));
  }
  std::int64_t index() {
    std::int64_t value = -1;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc() || value < 0 || value >= kMost)
      fail(fmt::format("expected \"layer-head\", each in 0..{}, found {}", kMost - 1, found()));
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }
  double score() {
    double value = -1;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc() || !(value >= 0 && value <= kLargest))
      fail(fmt::format("expected a score in 0..{}, found {}", kLargest, found()));
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }
  /// [0.1, 0.3]
  std::vector<double> list() {
    expect('[');
    std::vector<double> values;
    do {
      skip_blanks();
      values.push_back(score());
      skip_blanks();
    } while (take(','));
    expect(']');
    return values;
  }

 private:
  std::string_view text_;
  const std::string& path_;
  std::size_t at_ = 0;
};

kv::HeadTable from_rows(const std::vector<std::vector<double>>& rows, const Scanner& scanner) {
  kv::HeadTable table;
  table.num_layers = static_cast<std::int64_t>(rows.size());
  table.num_heads = rows.empty() ? 0 : static_cast<std::int64_t>(rows.front().size());
  if (table.num_layers > kMost || table.num_heads > kMost)
    scanner.fail(fmt::format("expected at most {} layers and heads", kMost));
  for (std::size_t layer = 0; layer < rows.size(); ++layer) {
    if (rows[layer].size() != rows.front().size()) {
      scanner.fail(
          fmt::format("layer {} has {} heads, layer 0 has {}", layer, rows[layer].size(), rows.front().size()));
    }
    table.scores.insert(table.scores.end(), rows[layer].begin(), rows[layer].end());
  }
  return table;
}

kv::HeadTable from_object(Scanner& scanner) {
  std::map<std::pair<std::int64_t, std::int64_t>, double> score_of;
  scanner.expect('{');
  do {
    scanner.expect('"');
    const std::int64_t layer = scanner.index();
    if (!scanner.take('-'))
      scanner.fail(fmt::format("expected \"layer-head\", found {} after the layer", scanner.found()));
    const std::int64_t head = scanner.index();
    scanner.expect('"');
    scanner.expect(':');
    scanner.skip_blanks();
    const std::vector<double> scores = scanner.next() == '[' ? scanner.list() : std::vector<double>{scanner.score()};
    const double mean = std::accumulate(scores.begin(), scores.end(), 0.0) / static_cast<double>(scores.size());
    if (!score_of.emplace(std::pair(layer, head), mean).second) {
      scanner.fail(fmt::format("head \"{}-{}\" is there twice", layer, head));
    }
    scanner.skip_blanks();
  } while (scanner.take(','));
  scanner.expect('}');
  std::int64_t num_heads = 0;
  for (const auto& [place, score] : score_of) num_heads = std::max(num_heads, place.second + 1);
  std::vector<std::vector<double>> rows(static_cast<std::size_t>(score_of.rbegin()->first.first + 1));
  for (std::size_t layer = 0; layer < rows.size(); ++layer) {
    for (std::int64_t head = 0; head < num_heads; ++head) {
      const auto found = score_of.find({static_cast<std::int64_t>(layer), head});
      if (found == score_of.end()) {
        scanner.fail(
            fmt::format("head \"{}-{}\" is missing of {} layers of {} heads", layer, head, rows.size(), num_heads));
      }
      rows[layer].push_back(found->second);
    }
  }
  return from_rows(rows, scanner);
}

kv::HeadTable from_lists(Scanner& scanner) {
  std::vector<std::vector<double>> rows;
  scanner.expect('[');
  do {
    rows.push_back(scanner.list());
    scanner.skip_blanks();
  } while (scanner.take(','));
  scanner.expect(']');
  return from_rows(rows, scanner);
}

kv::HeadTable from_lines(Scanner& scanner) {
  std::vector<std::vector<double>> rows;
  while (!scanner.is_at_end()) {
    std::vector<double>& row = rows.emplace_back();
    do {
      row.push_back(scanner.score());
      scanner.skip_blanks(false);
      if (scanner.take(',')) scanner.skip_blanks(false);
    } while (!scanner.is_at_end() && scanner.next() != '\n');
    scanner.skip_blanks();
  }
  return from_rows(rows, scanner);
}

}  // namespace

kv::HeadTable read_head_table(const std::string& path) {
  const std::string text = read_whole_file(path, kMostBytes, "a table of head scores");
  Scanner scanner(text, path);
  scanner.skip_blanks();
  if (scanner.is_at_end()) scanner.fail("expected scores of heads, found nothing");
  kv::HeadTable table = scanner.next() == '{'   ? from_object(scanner)
                        : scanner.next() == '[' ? from_lists(scanner)
                                                : from_lines(scanner);
  scanner.skip_blanks();
  if (!scanner.is_at_end()) scanner.fail(fmt::format("expected the end of the table, found {}", scanner.found()));
  if (std::ranges::all_of(table.scores, [](double score) { return score == 0; })) {
    scanner.fail("expected a score above 0, all are 0");
  }
  return table;
}

}  // namespace kvtide::experiment
