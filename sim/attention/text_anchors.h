#pragma once
// Places of a text that tend to matter, found from its token strings by plain rules: no model, no dictionary.
//
// Example: tokens "The" " code" " of" " Ann" "ika" " is" " " "4" "2" ".": numbers 7, 8; names 3, 4 (a capital letter
// inside a sentence, and the rest of that word); paragraphs 0.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvtide::attention {

/// numbers     tokens that hold a digit
/// names       words with a capital letter that do not begin a sentence or line
/// headings    lines of at most 12 words that begin with '#', end with ':', or have capitals only; the whole line
/// paragraphs  first token after a line break, and the first token of the text
/// sentences   first token after a full stop, question or exclamation mark, and what `paragraphs` finds
enum class TextAnchor : std::uint8_t { numbers, names, headings, paragraphs, sentences };

/// @throws InputError that lists the kinds
[[nodiscard]] TextAnchor text_anchor(std::string_view name);

/// @param tokens  [token] the text of each token, UTF-8, spaces included
/// @return token indices, ascending
[[nodiscard]] std::vector<std::int64_t> find_text_anchors(const std::vector<std::string>& tokens, TextAnchor kind);

}  // namespace kvtide::attention
