#pragma once
// What a client asks for, and a CSV of them.

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"

namespace kvtide::serving {

/// Output length is forced: the client reads exactly `output_tokens`.
struct Request {
  Picoseconds arrival{0};          ///< when it joins the engine's queue
  std::int64_t input_tokens = 0;   ///< > 0
  std::int64_t output_tokens = 0;  ///< > 0
  /// Ids of the prompt's leading blocks that other requests have too; equal ids are equal chains of tokens. Whatever
  /// follows is this request's own.
  std::vector<std::uint64_t> shared_blocks;
  std::int64_t line = 0;      ///< of the file it stands in; 0: drawn
  std::int64_t priority = 0;  ///< the lower the sooner, where the engine looks at it
  /// Its prompt was computed by another engine, which also generated the first token; the cache arrives with it.
  bool is_transferred = false;
};

struct RequestTrace {
  std::vector<Request> requests;         ///< by arrival, then in file order
  std::int64_t shared_block_tokens = 0;  ///< tokens of one id of shared_blocks; 0: no ids in the file
};

/// Reads `arrival_s` (absent: all at 0, unless another column has times), `input_tokens`, `output_tokens`, `priority` (absent: 0) and,
/// where there is one, `hash_blocks` (512 tokens an id), `shared_prefix_blocks` or `shared_prefix_block_ids` (16 tokens an id): ids
/// apart by spaces, "a-b" is an inclusive range. Ids beyond the prompt's last token are not kept; 2^26 in a file are the most.
/// @param arrival_column  another name for arrival_s ("queued_s" of a measured run)
/// @throws InputError with file, line and column
[[nodiscard]] RequestTrace load_requests(const std::string& path, const std::string& arrival_column = "arrival_s");

/// "0-2 7" -> 0, 1, 2, 7; the first `most` of them. @throws InputError on anything else, or on more than a million ids
[[nodiscard]] std::vector<std::uint64_t> parse_block_ids(const std::string& text, std::size_t most = 1'000'000);

}  // namespace kvtide::serving
