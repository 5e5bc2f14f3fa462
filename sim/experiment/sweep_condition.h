#pragma once
// `when:` of a sweep: which combinations are run. A condition is KEY OP OPERAND with one of == != < <= > >=; an operand is
// another key, a number, or a text in single quotes. All conditions must hold.
//
// Example: when: ["compression.block_size <= context_tokens", "compression.stages != 'int4'"]

#include <functional>
#include <optional>
#include <string>

namespace kvtide::experiment {

struct Condition {
  enum class Operator : unsigned char { equal, not_equal, less, less_equal, greater, greater_equal };
  std::string left, right;  ///< as written, without spaces at the ends
  Operator op = Operator::equal;
};

/// @throws InputError (message only, without a place) when the text is no condition
[[nodiscard]] Condition parse_condition(const std::string& text);

/// @param value_of  text of a key in this run: a swept key's label, else what the file says; nothing where it says nothing
/// @throws InputError  a key without a value, or an order between texts
[[nodiscard]] bool holds(const Condition& condition,
                         const std::function<std::optional<std::string>(const std::string& key)>& value_of);

}  // namespace kvtide::experiment
