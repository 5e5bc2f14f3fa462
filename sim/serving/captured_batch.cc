#include "serving/captured_batch.h"

#include <algorithm>

namespace kvtide::serving {

std::int64_t padded_batch(std::int64_t num_tokens, std::int64_t largest_capture) {
  if (num_tokens > largest_capture) return num_tokens;
  if (num_tokens <= 2) return num_tokens;
  if (num_tokens <= 4) return 4;
  const std::int64_t step = num_tokens <= 248 ? 8 : 16;
  return std::min((num_tokens + step - 1) / step * step, largest_capture);
}

std::int64_t largest_captured_batch(std::int64_t max_num_seqs) {
  return std::min<std::int64_t>(2 * max_num_seqs, 512);
}

}  // namespace kvtide::serving
