#pragma once
// Text between double quotes, as JSON (RFC 8259 section 7) and YAML (1.2 section 5.7) both read it.

#include <string>
#include <string_view>

namespace kvtide {

/// Quotes, backslashes and control characters escaped; every other byte as it is.
/// Example: a"b followed by a line feed -> "a\"b\u000a", the outer quotes included.
[[nodiscard]] std::string quoted_text(std::string_view text);

}  // namespace kvtide
