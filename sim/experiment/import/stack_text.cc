#include "experiment/import/stack_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/lower_case.h"
#include "config/yaml_value.h"
#include "experiment/import/harmless_flags.h"

namespace kvtide::experiment {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
bool is_key_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}

/// "--kv-cache-dtype" -> "kv_cache_dtype"
std::string normalised(std::string_view key) {
  while (!key.empty() && key.front() == '-') key.remove_prefix(1);
  std::string result = lower_case(key);
  std::ranges::replace(result, '-', '_');
  return result;
}

bool is_option(const std::string& word) {
  // "-1" is a value, "-c" an option.
  return word.size() >= 2 && word[0] == '-' && std::isdigit(static_cast<unsigned char>(word[1])) == 0;
}

/// Not an arrow or a line of dashes in a log.
bool has_key_form(std::string_view key) {
  return !key.empty() && std::isalpha(static_cast<unsigned char>(key.front())) != 0 &&
         std::ranges::all_of(key, [](char c) { return is_key_character(c) || c == '.'; });
}

/// Where the arguments of the first engines stand in Python calls or in what these print as they start: [begin, end).
std::vector<std::pair<std::size_t, std::size_t>> argument_ranges(const std::string& text) {
  constexpr std::size_t kMost = 16;
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  for (const std::string_view opening : {"LLM(", "EngineArgs(", "sgl.Engine(", "args: {"}) {
    for (std::size_t at = text.find(opening); at != std::string::npos && ranges.size() < kMost;
         at = text.find(opening, ranges.back().second)) {
      const std::size_t begin = at + opening.size();
      std::size_t end = begin;
      for (int depth = 1; end < text.size() && depth > 0; ++end) {
        if (text[end] == '(' || text[end] == '{') ++depth;
        if (text[end] == ')' || text[end] == '}') --depth;
      }
      ranges.emplace_back(begin, end);
    }
  }
  return ranges;
}

}  // namespace

std::vector<std::string> shell_words(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  bool has_word = false;
  char quote = 0;
  for (std::size_t index = 0; index < text.size(); ++index) {
    const char c = text[index];
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      has_word = true;
    } else if (c == '\\' && index + 1 < text.size()) {
      ++index;
      if (text[index] != '\n' && text[index] != '\r') {
        word += text[index];
        has_word = true;
      }
    } else if (is_blank(c)) {
      if (has_word) words.push_back(std::move(word));
      word.clear();
      has_word = false;
    } else if (c == '#' && !has_word && index + 1 < text.size() && is_blank(text[index + 1])) {
      while (index + 1 < text.size() && text[index + 1] != '\n') ++index;  // a comment; a log's "#token:" is none
    } else {
      word += c;
      has_word = true;
    }
  }
  if (has_word) words.push_back(std::move(word));
  return words;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  constexpr std::string_view kUnits = "kmgtKMGT";
  std::int64_t unit = 1;
  bool takes_decimals = false;
  if (const std::size_t found = text.empty() ? kUnits.npos : kUnits.find(text.back()); found != kUnits.npos) {
    takes_decimals = found < 4;
    for (std::size_t i = 0; i <= found % 4; ++i) unit *= takes_decimals ? 1000 : 1024;
    text.remove_suffix(1);
  }
  std::int64_t value = 0;
  std::int64_t decimals = 0;  // value is in units of 1 / decimals; 0 before the point
  for (std::size_t index = 0; index < text.size(); ++index) {
    const char c = text[index];
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      value = value * 10 + (c - '0');
      decimals *= 10;
      if (value > kMost) return std::nullopt;
    } else if (c == '.' && takes_decimals && decimals == 0 && index > 0 && index + 1 < text.size()) {
      decimals = 1;
    } else if (c != ',' || index == 0 || decimals > 0) {
      return std::nullopt;
    }
  }
  const __int128 whole = static_cast<__int128>(value) * unit / std::max<std::int64_t>(decimals, 1);
  return text.empty() || whole > kMost ? std::nullopt : std::optional(static_cast<std::int64_t>(whole));
}

StackText::StackText(std::string text) : text_(std::move(text)), lower_(lower_case(text_)) {
  read_document();
  const bool is_document = !values_.empty();
  read_assignments();
  if (!is_document) read_command_line();
}

void StackText::add(std::string_view key, std::string value) {
  values_.emplace_back(normalised(key), std::move(value));
}

void StackText::add_given(std::string written, std::vector<std::string> keys) {
  for (std::string& key : keys) key = normalised(key);
  if (has_key_form(keys.front())) given_.push_back({std::move(written), std::move(keys)});
}

void StackText::read_document() {
  const std::size_t first = text_.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return;
  try {
    const config::Document document = config::Document::parse(text_, "imported");
    std::function<void(const config::Value&, const std::string&, int)> visit = [&](const config::Value& value,
                                                                                   const std::string& above,
                                                                                   int depth) {
      if (!value.is_map() || depth > 8) return;
      for (const std::string& key : value.keys()) {
        if (key.find(' ') != std::string::npos) throw InputError("a sentence with a colon, no document");
        const config::Value child = value.at(key);
        if (child.is_map()) {
          visit(child, key, depth + 1);
        } else {
          add(key, child.text());
          if (!above.empty()) add(fmt::format("{}_{}", above, key), child.text());
          add_given(above.empty() ? key : fmt::format("{}.{}", above, key), {key, fmt::format("{}_{}", above, key)});
        }
      }
    };
    visit(document.root(), "", 0);
    if (document.root().is_map()) outermost_ = document.root().keys();
  } catch (const Error&) {
    values_.clear();  // no YAML: a command line or a log
    given_.clear();
  }
}

/// key=value, key="value", 'key': 'value' anywhere in the text: Python calls and printed arguments.
void StackText::read_assignments() {
  const auto ranges = values_.empty() ? argument_ranges(text_) : std::vector<std::pair<std::size_t, std::size_t>>{};
  const auto is_argument = [&](std::size_t at) {
    return std::ranges::any_of(ranges, [at](const auto& range) { return range.first <= at && at < range.second; });
  };
  std::size_t index = 0;
  while (index < text_.size()) {
    if (!is_key_character(text_[index]) || (index > 0 && is_key_character(text_[index - 1]))) {
      ++index;
      continue;
    }
    const std::size_t begin = index;
    std::size_t end = index;
    while (end < text_.size() && is_key_character(text_[end])) ++end;
    const std::string key = text_.substr(index, end - index);
    const bool is_quoted = index > 0 && (text_[index - 1] == '\'' || text_[index - 1] == '"') && end < text_.size() &&
                           text_[end] == text_[index - 1];
    std::size_t at = is_quoted ? end + 1 : end;
    index = end;
    const bool is_option_word = key.starts_with("-");
    if (at < text_.size() && text_.compare(at, 3, " = ") == 0) ++at;
    if (at >= text_.size() || is_option_word || !(text_[at] == '=' || (is_quoted && text_[at] == ':'))) continue;
    ++at;
    while (at < text_.size() && text_[at] == ' ' && (is_quoted || text_[at - 2] == ' ')) ++at;
    if (at >= text_.size()) break;
    std::string value;
    if (text_[at] == '\'' || text_[at] == '"') {
      const char quote = text_[at];
      const std::size_t close = text_.find(quote, at + 1);
      if (close == std::string::npos) break;
      value = text_.substr(at + 1, close - at - 1);
      index = close + 1;
    } else {
      std::size_t close = at;
      while (close < text_.size() && !is_blank(text_[close]) && text_[close] != ',' && text_[close] != ')' &&
             text_[close] != '(' && text_[close] != '}' && text_[close] != ']') {
        ++close;
      }
      value = text_.substr(at, close - at);
      index = std::max(close, index);
    }
    if (value.empty()) continue;
    add(key, value);
    if (is_argument(begin)) add_given(key, {key});
  }
}

void StackText::read_command_line() {
  const std::vector<std::string> words = shell_words(text_);
  for (std::size_t index = 0; index < words.size(); ++index) {
    const std::string& word = words[index];
    if (!is_option(word)) {
      words_.push_back(word);
      continue;
    }
    const std::size_t equals = word.find('=');
    const std::string option = word.substr(0, equals);
    add_given(option, {option});
    if (equals != std::string::npos) {
      add(option, word.substr(equals + 1));
    } else if (index + 1 < words.size() && !is_option(words[index + 1])) {
      add(word, words[index + 1]);
      ++index;
    } else {
      add(word, "true");
    }
  }
}

bool StackText::has(std::initializer_list<std::string_view> keys) const {
  return std::ranges::any_of(values_,
                             [&](const auto& entry) { return std::ranges::find(keys, entry.first) != keys.end(); });
}

std::optional<std::string> StackText::value(std::initializer_list<std::string_view> keys) const {
  asked_.insert(keys.begin(), keys.end());
  for (const std::string_view key : keys) {
    for (auto entry = values_.rbegin(); entry != values_.rend(); ++entry) {
      if (entry->first == key) return entry->second;
    }
  }
  return std::nullopt;
}

std::vector<std::string> StackText::all(std::string_view key) const {
  asked_.emplace(key);
  std::vector<std::string> found;
  for (const auto& [name, value] : values_) {
    if (name == key) found.push_back(value);
  }
  return found;
}

std::optional<std::int64_t> StackText::integer(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) {
    const std::optional<std::string> text = value({key});
    if (!text || *text == "None" || *text == "null" || *text == "auto" || *text == "-1") continue;
    const std::optional<std::int64_t> number = whole_number(*text);
    if (!number) throw InputError(fmt::format("import: {}: expected a whole number, got \"{}\"", key, *text));
    return number;
  }
  return std::nullopt;
}

std::optional<double> StackText::number(std::initializer_list<std::string_view> keys) const {
  const std::optional<std::string> text = value(keys);
  if (!text || *text == "None" || *text == "null" || *text == "auto") return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(text->c_str(), &end);
  if (end == text->c_str() || *end != '\0' || !std::isfinite(number)) {
    throw InputError(fmt::format("import: {}: expected a number, got \"{}\"", *keys.begin(), *text));
  }
  return number;
}

bool StackText::is_true(std::initializer_list<std::string_view> keys) const {
  const std::optional<std::string> text = value(keys);
  return text && (*text == "true" || *text == "True" || *text == "1");
}

bool StackText::is_false(std::initializer_list<std::string_view> keys) const {
  const std::optional<std::string> text = value(keys);
  return text && (*text == "false" || *text == "False" || *text == "0");
}

std::vector<std::string> StackText::unread() const {
  std::vector<std::string> unread;
  std::set<std::string_view> seen;
  for (const Given& one : given_) {
    const bool is_read = std::ranges::any_of(
        one.keys, [&](const std::string& key) { return asked_.contains(key) || is_harmless_flag(key); });
    if (!is_read && seen.insert(one.written).second) unread.push_back(one.written);
  }
  return unread;
}

bool StackText::mentions(std::string_view phrase) const {
  return lower_.find(lower_case(phrase)) != std::string::npos;
}

}  // namespace kvtide::experiment
