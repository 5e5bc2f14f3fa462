#pragma once
// What may go wrong, in three kinds (the caller decides what to print and which code to exit with).

#include <stdexcept>
#include <string>
#include <utility>

namespace kvtide {

/// The only exception that crosses a room's boundary.
class Error : public std::runtime_error {
 public:
  enum class Kind : unsigned char {
    input,        ///< wrong usage, configuration or input file; exit code 2
    environment,  ///< disk, permissions, memory, missing program; exit code 3
    internal,     ///< our mistake; never reachable from input
  };
  Error(Kind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  [[nodiscard]] Kind kind() const noexcept { return kind_; }

 private:
  Kind kind_;
};

/// Wrong usage, configuration or input file. The message says what was found and what is allowed.
class InputError : public Error {
 public:
  explicit InputError(const std::string& message) : Error(Kind::input, message) {}
};

/// The surroundings failed us: unwritable folder, full disk, missing permission.
class EnvironmentError : public Error {
 public:
  explicit EnvironmentError(const std::string& message) : Error(Kind::environment, message) {}
};

/// A combination that cannot run (does not fit, violates a bound). A value, not an exception: a sweep stores it and
/// goes on.
struct Infeasible {
  std::string reason;
};

namespace internal {
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line, const std::string& what);
}  // namespace internal

/// A programmer's error; throws Error{internal} with the place. Never reachable from user input.
#define KVTIDE_ASSERT(condition, what)                                                              \
  do {                                                                                              \
    if (!(condition)) ::kvtide::internal::assertion_failed(#condition, __FILE__, __LINE__, (what)); \
  } while (false)

}  // namespace kvtide
