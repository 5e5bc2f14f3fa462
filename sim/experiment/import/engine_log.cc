// What logs show. An engine's start-up tells its pool; a request line that names both a sequence length and the KV length
// attended shows compression at work wherever the second is shorter, whatever the configuration claims.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "experiment/import/imported.h"
#include "experiment/import/stack_text.h"

namespace kvtide::experiment {
namespace {

/// The number after `phrase` in the text, blanks and = : between; commas inside the number.
std::optional<double> number_after(const std::string& line, std::string_view phrase) {
  const std::size_t at = line.find(phrase);
  if (at == std::string::npos) return std::nullopt;
  std::size_t begin = at + phrase.size();
  while (begin < line.size() && (line[begin] == ' ' || line[begin] == ':' || line[begin] == '=' || line[begin] == '"' ||
                                 line[begin] == '\'')) {
    ++begin;
  }
  std::string digits;
  for (; begin < line.size(); ++begin) {
    const char c = line[begin];
    if (std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.') {
      digits += c;
    } else if (c != ',' || begin + 1 >= line.size() || std::isdigit(static_cast<unsigned char>(line[begin + 1])) == 0) {
      break;
    }
  }
  if (digits.empty() || digits.size() > 15) return std::nullopt;
  return std::strtod(digits.c_str(), nullptr);
}

template <std::size_t kCount>
std::optional<double> first_number(const std::string& line, const std::array<std::string_view, kCount>& phrases) {
  for (const std::string_view phrase : phrases) {
    // A phrase must not be the tail of a longer word: "kv_len" is not in "max_kv_len".
    const std::size_t at = line.find(phrase);
    if (at == std::string::npos) continue;
    if (at > 0 && (std::isalnum(static_cast<unsigned char>(line[at - 1])) != 0 || line[at - 1] == '_')) continue;
    if (const auto number = number_after(line, phrase)) return number;
  }
  return std::nullopt;
}

constexpr std::array<std::string_view, 8> kSequence{"seq_len",        "sequence_length", "context_len",
                                                    "context_length", "total_tokens",    "num_tokens",
                                                    "prompt_tokens",  "seqlen"};
constexpr std::array<std::string_view, 8> kAttended{"attended_kv_len", "attended_kv",  "kv_len",       "kv_length",
                                                    "cache_len",       "cache_length", "kv_cache_len", "key_len"};

void read_requests(const std::string& text, Imported& imported) {
  std::int64_t num_requests = 0;
  std::int64_t num_shorter = 0;
  double smallest_share = 1;
  double longest_attended = 0;
  double longest_sequence = 0;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const auto sequence = first_number(line, kSequence);
    const auto attended = first_number(line, kAttended);
    if (!sequence || !attended || *sequence < 1) continue;
    ++num_requests;
    longest_sequence = std::max(longest_sequence, *sequence);
    longest_attended = std::max(longest_attended, *attended);
    // The token at hand may not be in the cache yet.
    if (*attended < *sequence - 1) {
      ++num_shorter;
      smallest_share = std::min(smallest_share, *attended / *sequence);
    }
  }
  if (num_requests == 0) return;
  if (num_shorter == 0) {
    imported.keeps.push_back(
        fmt::format("{} logged requests attend to as many positions as their sequences have", num_requests));
    return;
  }
  imported.loses.push_back(
      fmt::format("{} of {} logged requests attend to fewer positions than their sequence has (down to {:.1f} %): "
                  "compression is at work, "
                  "whatever the configuration claims",
                  num_shorter, num_requests, 100 * smallest_share));
  if (imported.compression == "none") {
    const double share = std::max(1e-6, std::floor(longest_attended / longest_sequence * 1e6) / 1e6);
    imported.compression =
        fmt::format("{{block_size: 1, stages: [{{evict: {{granularity: token, keep_ratio: {:.6g}}}}}]}}", share);
    if (!imported.context_tokens) imported.context_tokens = static_cast<std::int64_t>(longest_sequence);
    imported.left_out.emplace_back(
        "which positions go is not in a log: imported as attention_sum with the share that is attended");
  }
}

void read_start_up(const std::string& text, Imported& imported) {
  const auto tokens = number_after(text, "GPU KV cache size:");
  const auto request = number_after(text, "Maximum concurrency for ");
  const auto concurrency = number_after(text, "tokens per request:");
  if (tokens) {
    imported.pool_tokens = static_cast<std::int64_t>(*tokens);
    imported.keeps.push_back(fmt::format("KV pool of {:.0f} tokens: {:.0f} pages of {}", *tokens,
                                         std::floor(*tokens / static_cast<double>(imported.page_size)),
                                         imported.page_size));
  }
  if (tokens && request && concurrency && *request > 0) {
    if (!imported.context_tokens) imported.context_tokens = static_cast<std::int64_t>(*request);
    const double held = *tokens / *concurrency;
    // Rounding to pages explains one page, no more.
    if (held < *request - static_cast<double>(imported.page_size)) {
      imported.loses.push_back(
          fmt::format("the engine counts at most {:.0f} tokens of KV for a request of {:.0f}: a sliding window attends "
                      "to fewer positions "
                      "than the sequence has",
                      held, *request));
    }
  }
  if (const auto blocks = number_after(text, "# GPU blocks:")) {
    imported.keeps.push_back(fmt::format("KV pool of {:.0f} pages", *blocks));
  }
  if (const auto tokens_sglang = number_after(text, "#tokens:")) {
    imported.pool_tokens = static_cast<std::int64_t>(*tokens_sglang);
    imported.keeps.push_back(fmt::format("KV pool of {:.0f} tokens", *tokens_sglang));
  }
}

}  // namespace

void read_log(const StackText& text, Imported& imported) {
  read_start_up(text.text(), imported);
  read_requests(text.text(), imported);
}

}  // namespace kvtide::experiment
