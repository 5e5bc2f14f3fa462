#pragma once
// What a serving stack was told, as keys and values, however it was written: a command line, a Python call, a YAML or JSON
// file, or the arguments that an engine prints as it starts.
//
// Example: `vllm serve M --kv-cache-dtype=fp8`, `LLM(model="M", kv_cache_dtype="fp8")`, `{"kv_cache_dtype": "fp8"}` and
// `... args: {'model': 'M', 'kv_cache_dtype': 'fp8'}` all give kv_cache_dtype -> fp8.

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvtide::experiment {

class StackText {
 public:
  /// Never throws: what cannot be read as keys and values is only text.
  explicit StackText(std::string text);

  [[nodiscard]] const std::string& text() const { return text_; }
  /// Words of a command line that are no option and no value of one, in order.
  [[nodiscard]] const std::vector<std::string>& words() const { return words_; }
  /// Keys in lower case with underscores, in the order of the text. A key inside a mapping stands alone and after the
  /// mapping's: kv_cache_config: {dtype: fp8} gives dtype and kv_cache_config_dtype.
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& values() const { return values_; }

  /// Keys of a document's outermost mapping, as written; empty: no document.
  [[nodiscard]] const std::vector<std::string>& outermost() const { return outermost_; }

  /// Whether one of `keys` is there; not counted as reading it.
  [[nodiscard]] bool has(std::initializer_list<std::string_view> keys) const;
  /// The last value of the first of `keys` that is there. A flag's value is "true".
  [[nodiscard]] std::optional<std::string> value(std::initializer_list<std::string_view> keys) const;
  /// Every value of a key.
  [[nodiscard]] std::vector<std::string> all(std::string_view key) const;
  /// A whole_number(); nothing for what leaves it to the stack (None, null, auto, -1). @throws InputError naming the key when it is none
  [[nodiscard]] std::optional<std::int64_t> integer(std::initializer_list<std::string_view> keys) const;
  /// @throws InputError naming the key when it is no finite number
  [[nodiscard]] std::optional<double> number(std::initializer_list<std::string_view> keys) const;
  [[nodiscard]] bool is_true(std::initializer_list<std::string_view> keys) const;
  [[nodiscard]] bool is_false(std::initializer_list<std::string_view> keys) const;
  /// Case does not matter.
  [[nodiscard]] bool mentions(std::string_view phrase) const;
  /// What was given to the stack (options, keys of a document, arguments of a Python call or a log's "args: {...}"), as
  /// written, that no call above has asked for and that may matter.
  [[nodiscard]] std::vector<std::string> unread() const;

 private:
  struct Given {
    std::string written;
    std::vector<std::string> keys;  ///< under any of which it is read
  };

  void read_assignments();
  void read_command_line();
  void read_document();
  void add(std::string_view key, std::string value);
  void add_given(std::string written, std::vector<std::string> keys);

  std::string text_;
  std::string lower_;
  std::vector<std::string> words_;
  std::vector<std::pair<std::string, std::string>> values_;
  std::vector<std::string> outermost_;
  std::vector<Given> given_;
  mutable std::set<std::string, std::less<>> asked_;
};

/// Splits as a POSIX shell does: blanks, quotes, backslash before a newline.
[[nodiscard]] std::vector<std::string> shell_words(const std::string& text);

/// Decimal digits with commas between and one suffix, as vllm's human_readable_int() (vllm/engine/arg_utils.py) reads it:
/// k, m, g, t are powers of 1,000 and may have decimals, K, M, G, T powers of 1,024. None for anything else, or beyond 2^50.
/// "8k" -> 8,000, "8K" -> 8,192, "25.6k" -> 25,600
[[nodiscard]] std::optional<std::int64_t> whole_number(std::string_view text);

}  // namespace kvtide::experiment
