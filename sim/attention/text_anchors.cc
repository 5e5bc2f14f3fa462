#include "attention/text_anchors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/trimmed.h"

namespace kvtide::attention {
namespace {

constexpr std::array<std::pair<TextAnchor, std::string_view>, 5> kKinds{{{TextAnchor::numbers, "numbers"},
                                                                         {TextAnchor::names, "names"},
                                                                         {TextAnchor::headings, "headings"},
                                                                         {TextAnchor::paragraphs, "paragraphs"},
                                                                         {TextAnchor::sentences, "sentences"}}};
constexpr std::int64_t kLongestHeading = 12;

// ASCII only: bytes of other letters are neither capitals nor spaces, whatever the locale.
bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_lower(char c) {
  return (c >= 'a' && c <= 'z') || (static_cast<unsigned char>(c) & 0x80U) != 0;
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_space(char c) {
  return c == ' ' || c == '\t';
}
bool is_break(char c) {
  return c == '\n' || c == '\r';
}

std::vector<std::int64_t> numbers(const std::vector<std::string>& tokens) {
  std::vector<std::int64_t> found;
  for (std::size_t index = 0; index < tokens.size(); ++index) {
    if (std::ranges::any_of(tokens[index], is_digit)) found.push_back(static_cast<std::int64_t>(index));
  }
  return found;
}

/// Appended once, however often it is found in a row.
void add(std::int64_t index, std::vector<std::int64_t>& found) {
  if (found.empty() || found.back() != index) found.push_back(index);
}

std::vector<std::int64_t> starts(const std::vector<std::string>& tokens, bool of_sentences) {
  std::vector<std::int64_t> found;
  bool is_start = true;
  for (std::size_t index = 0; index < tokens.size(); ++index) {
    for (const char c : tokens[index]) {
      if (is_break(c)) {
        is_start = true;
      } else if (is_start && !is_space(c)) {
        add(static_cast<std::int64_t>(index), found);
        is_start = false;
      }
    }
    const std::string_view word = trimmed(tokens[index]);
    if (of_sentences && !word.empty() && (word.back() == '.' || word.back() == '?' || word.back() == '!')) {
      is_start = true;
    }
  }
  return found;
}

std::vector<std::int64_t> names(const std::vector<std::string>& tokens) {
  std::vector<std::int64_t> found;
  const std::vector<std::int64_t> first_words = starts(tokens, true);
  bool in_name = false;
  for (std::size_t index = 0; index < tokens.size(); ++index) {
    const std::string& token = tokens[index];
    const auto position = static_cast<std::int64_t>(index);
    const std::string_view word = trimmed(token);
    const bool begins_word = !token.empty() && (is_space(token.front()) || is_break(token.front()));
    if (begins_word || index == 0) {
      in_name = word.size() > 1 && is_upper(word[0]) && is_lower(word[1]);
      in_name = in_name || (word.size() == 1 && is_upper(word[0]) && index + 1 < tokens.size() &&
                            !tokens[index + 1].empty() && is_lower(tokens[index + 1][0]));
      in_name = in_name && !std::ranges::binary_search(first_words, position);
    } else {
      in_name = in_name && !word.empty() && (is_lower(word[0]) || is_upper(word[0]));
    }
    if (in_name) found.push_back(position);
  }
  return found;
}

bool is_heading(std::string_view text) {
  const auto words = std::ranges::count_if(text, is_space) + 1;
  const bool has_capitals_only = std::ranges::any_of(text, is_upper) && std::ranges::none_of(text, is_lower);
  return !text.empty() && words <= kLongestHeading && (text.front() == '#' || text.back() == ':' || has_capitals_only);
}

/// A token with a break in it belongs to the lines of which it holds more than spaces.
std::vector<std::int64_t> headings(const std::vector<std::string>& tokens) {
  std::vector<std::int64_t> found;
  std::string line;
  std::int64_t first = -1;
  std::int64_t last = -1;
  const auto end_line = [&] {
    if (first >= 0 && is_heading(trimmed(line))) {
      for (std::int64_t index = first; index <= last; ++index) add(index, found);
    }
    line.clear();
    first = -1;
  };
  for (std::size_t index = 0; index < tokens.size(); ++index) {
    for (const char c : tokens[index]) {
      if (is_break(c)) {
        end_line();
        continue;
      }
      line += c;
      if (is_space(c)) continue;
      if (first < 0) first = static_cast<std::int64_t>(index);
      last = static_cast<std::int64_t>(index);
    }
  }
  end_line();
  return found;
}

}  // namespace

TextAnchor text_anchor(std::string_view name) {
  for (const auto& [kind, known] : kKinds) {
    if (known == name) return kind;
  }
  throw InputError(fmt::format("expected one of numbers, names, headings, paragraphs, sentences, got \"{}\"", name));
}

std::vector<std::int64_t> find_text_anchors(const std::vector<std::string>& tokens, TextAnchor kind) {
  switch (kind) {
    case TextAnchor::numbers:
      return numbers(tokens);
    case TextAnchor::names:
      return names(tokens);
    case TextAnchor::headings:
      return headings(tokens);
    case TextAnchor::paragraphs:
      return starts(tokens, false);
    case TextAnchor::sentences:
      return starts(tokens, true);
  }
  return {};
}

}  // namespace kvtide::attention
