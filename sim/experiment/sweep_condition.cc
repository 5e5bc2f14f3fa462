#include "experiment/sweep_condition.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>

#include "base/error.h"

namespace kvtide::experiment {
namespace {

using Operator = Condition::Operator;

// Longer ones first: "<=" begins with "<".
constexpr std::array<std::pair<const char*, Operator>, 6> kOperators{{{"==", Operator::equal},
                                                                      {"!=", Operator::not_equal},
                                                                      {"<=", Operator::less_equal},
                                                                      {">=", Operator::greater_equal},
                                                                      {"<", Operator::less},
                                                                      {">", Operator::greater}}};

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

bool is_quoted(const std::string& text) {
  return text.size() >= 2 && text.front() == '\'' && text.back() == '\'';
}

template <typename T>
bool compare(const T& left, Operator op, const T& right) {
  switch (op) {
    case Operator::equal:
      return left == right;
    case Operator::not_equal:
      return left != right;
    case Operator::less:
      return left < right;
    case Operator::less_equal:
      return left <= right;
    case Operator::greater:
      return left > right;
    case Operator::greater_equal:
      return left >= right;
  }
  return false;
}

}  // namespace

Condition parse_condition(const std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\'') break;  // the left side is a key
    for (const auto& [symbol, op] : kOperators) {
      const std::size_t length = std::string_view(symbol).size();
      if (text.compare(i, length, symbol) != 0) continue;
      Condition condition{trimmed(text.substr(0, i)), trimmed(text.substr(i + length)), op};
      if (condition.left.empty() || condition.right.empty() || number_of(condition.left)) break;
      return condition;
    }
  }
  throw InputError(fmt::format(
      "expected KEY OP OPERAND with one of == != < <= > >=, like \"compression.block_size <= 128\", got \"{}\"",
      text.substr(0, 80)));
}

bool holds(const Condition& condition,
           const std::function<std::optional<std::string>(const std::string& key)>& value_of) {
  const auto operand = [&value_of](const std::string& text) {
    if (is_quoted(text)) return text.substr(1, text.size() - 2);
    if (number_of(text)) return text;
    const std::optional<std::string> value = value_of(text);
    if (!value) {
      throw InputError(
          fmt::format("{} has no value in this file; write its value out, or quote a text: '{}'", text, text));
    }
    return *value;
  };
  const std::string left = operand(condition.left), right = operand(condition.right);
  const std::optional<double> left_number = number_of(left), right_number = number_of(right);
  if (left_number && right_number) return compare(*left_number, condition.op, *right_number);
  if (condition.op != Operator::equal && condition.op != Operator::not_equal) {
    throw InputError(fmt::format("only == and != are defined for texts, got \"{}\" and \"{}\"", left, right));
  }
  return compare(left, condition.op, right);
}

}  // namespace kvtide::experiment
