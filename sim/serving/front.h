#pragma once
// What traffic puts in front of a request's own text: a system prompt, a greeting, few-shot examples. Two tokens more there move every
// fact of the text against a grid of blocks; padding the front to a multiple of the block keeps it in place and costs the padding.
//
// Texts of one kind and length are the same text: requests that have it share its blocks, and behind it also what their own prompts
// share. Blocks behind a front are other blocks than without it.
//
// Example: blocks of 16, a front of 20 tokens before a prompt whose first two blocks of 16 are a known prefix: block 0 is the front's,
// block 1 holds 4 tokens of the front and 12 of the prefix, block 2 20 of it; the last 4 tokens of the prefix share no whole block.

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "serving/request_source.h"
#include "serving/workload.h"

namespace kvtide::serving {

struct FrontText {
  std::string name;  ///< "system prompt"
  LengthDistribution tokens{};
  double share = 1;  ///< of the requests
  bool operator==(const FrontText&) const = default;
};

struct Front {
  std::vector<FrontText> texts;  ///< shares add up to at most 1; the rest has nothing in front
  bool is_padded = false;
  std::int64_t multiple = 1;  ///< of the padded front, tokens: the compression's block
  bool operator==(const Front&) const = default;

  [[nodiscard]] bool exists() const { return !texts.empty(); }
  /// Tokens that a front of `tokens` takes. Example: 130 padded to multiples of 128: 256. None: none.
  [[nodiscard]] std::int64_t padded(std::int64_t tokens) const;
  /// Of all requests, tokens, with the padding: a drawn length is as likely to end anywhere in a multiple. Example: half of the requests
  /// behind 130 tokens: 65; padded to 128: 128.
  [[nodiscard]] double mean_tokens() const;
};

struct DrawnFront {
  std::size_t text = 0;     ///< index into Front::texts; texts.size(): none
  std::int64_t tokens = 0;  ///< without padding
};
[[nodiscard]] DrawnFront draw_front(const Front& front, RandomStream& random);

/// Requests of another source, each behind its front.
class FrontSource : public RequestSource {
 public:
  /// @param source, front  outlive this object  @param block_tokens  of one id of shared_blocks, >= 1
  /// @param most_tokens  nothing is shared beyond: what follows is cut away
  FrontSource(RequestSource& source, const Front& front, std::int64_t block_tokens, std::uint64_t seed,
              std::int64_t most_tokens = std::int64_t{1} << 28);
  [[nodiscard]] std::optional<Picoseconds> next_arrival() const override { return source_.next_arrival(); }
  [[nodiscard]] Request take() override;
  void on_finish(Picoseconds now) override { source_.on_finish(now); }
  [[nodiscard]] std::int64_t num_dropped() const override { return source_.num_dropped(); }
  [[nodiscard]] bool reacts_to_finishes() const override { return source_.reacts_to_finishes(); }

  [[nodiscard]] std::int64_t padding_tokens() const { return padding_tokens_; }  ///< so far
  [[nodiscard]] std::int64_t front_tokens() const { return front_tokens_; }      ///< so far, padding included

 private:
  RequestSource& source_;
  const Front& front_;
  std::int64_t block_tokens_, most_tokens_;
  RandomStream random_;
  std::int64_t padding_tokens_ = 0, front_tokens_ = 0;
};

/// How often each length of front occurs, as `count` equally likely draws sorted into classes of equal (tokens modulo `modulus`).
struct FrontShift {
  std::int64_t tokens = 0;  ///< the shortest of its class
  double share = 0;         ///< of the requests
};
/// @param modulus  >= 1; fronts that differ by a multiple of it are the same to a grid  @return by tokens modulo `modulus`
[[nodiscard]] std::vector<FrontShift> front_shifts(const Front& front, std::int64_t modulus, std::int64_t count,
                                                   std::uint64_t seed);

}  // namespace kvtide::serving
