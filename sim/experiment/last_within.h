#pragma once
// Where an amount that grows passes a limit, in few evaluations.

#include <cstdint>
#include <functional>

#include "base/units.h"

namespace kvtide::experiment {

/// An n in 0..most - 1 with bytes(n) <= limit < bytes(n + 1); with bytes that grow there is one. Guesses on the straight
/// line between the ends of what is left, three or four evaluations where bytes grow in proportion; where a guess does not
/// halve what is left, its middle is next: never more than 2 log2(most) + 2.
/// @param most_bytes  bytes(most), > limit. @param bytes  asked for 1..most - 1; bytes(0) counts as 0
[[nodiscard]] std::int64_t last_within(Bytes limit, std::int64_t most, Bytes most_bytes,
                                       const std::function<Bytes(std::int64_t)>& bytes);

}  // namespace kvtide::experiment
