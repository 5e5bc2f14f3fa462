#include "serving/front.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/units.h"

namespace kvtide::serving {

std::int64_t Front::padded(std::int64_t tokens) const {
  return is_padded && tokens > 0 ? ceil_div(tokens, multiple) * multiple : tokens;
}

double Front::mean_tokens() const {
  double sum = 0;
  for (const FrontText& text : texts) {
    double tokens = text.tokens.expected();
    if (is_padded && text.tokens.kind == LengthDistribution::Kind::fixed) {
      tokens = static_cast<double>(padded(std::llround(tokens)));
    } else if (is_padded) {
      tokens += static_cast<double>(multiple - 1) / 2;
    }
    sum += text.share * tokens;
  }
  return sum;
}

DrawnFront draw_front(const Front& front, RandomStream& random) {
  double place = random.uniform();
  for (std::size_t text = 0; text < front.texts.size(); ++text) {
    if (place < front.texts[text].share) return {text, front.texts[text].tokens.draw(random)};
    place -= front.texts[text].share;
  }
  return {front.texts.size(), 0};
}

FrontSource::FrontSource(RequestSource& source, const Front& front, std::int64_t block_tokens, std::uint64_t seed,
                         std::int64_t most_tokens)
    : source_(source), front_(front), block_tokens_(block_tokens), most_tokens_(most_tokens), random_(seed, "fronts") {}

Request FrontSource::take() {
  Request request = source_.take();
  const DrawnFront drawn = draw_front(front_, random_);
  const std::int64_t tokens = front_.padded(drawn.tokens);
  if (tokens == 0) return request;
  padding_tokens_ += tokens - drawn.tokens;
  front_tokens_ += tokens;
  request.input_tokens += tokens;
  // A block is named by the front and by the last id of the prompt that reaches into it.
  const std::uint64_t front = mix64(mix64(drawn.text + 1) + static_cast<std::uint64_t>(drawn.tokens));
  const std::vector<std::uint64_t> ids = std::move(request.shared_blocks);
  request.shared_blocks.clear();
  const auto known = std::min(most_tokens_, tokens + static_cast<std::int64_t>(ids.size()) * block_tokens_);
  for (std::int64_t block = 0; block < known / block_tokens_; ++block) {
    const std::int64_t of_prompt = (block + 1) * block_tokens_ - tokens;
    std::uint64_t id = mix64(front + static_cast<std::uint64_t>(block));
    if (of_prompt > 0) id = mix64(id ^ mix64(ids[static_cast<std::size_t>(ceil_div(of_prompt, block_tokens_) - 1)]));
    request.shared_blocks.push_back(id);
  }
  return request;
}

std::vector<FrontShift> front_shifts(const Front& front, std::int64_t modulus, std::int64_t count, std::uint64_t seed) {
  RandomStream random(seed, "front shifts");
  std::map<std::int64_t, FrontShift> classes;
  for (std::int64_t draw = 0; draw < count; ++draw) {
    const std::int64_t tokens = front.padded(draw_front(front, random).tokens);
    const auto [found, is_new] = classes.try_emplace(tokens % modulus, FrontShift{tokens, 0});
    if (!is_new) found->second.tokens = std::min(found->second.tokens, tokens);
    found->second.share += 1 / static_cast<double>(count);
  }
  std::vector<FrontShift> shifts;
  for (const auto& [residue, shift] : classes) shifts.push_back(shift);
  return shifts;
}

}  // namespace kvtide::serving
