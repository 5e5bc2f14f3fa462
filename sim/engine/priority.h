#pragma once
// Which of several events of one instant goes first. Order is total: time, then priority, then serial number.

#include <cstdint>

namespace kvtide::engine {

/// Classes of events inside one picosecond, earliest first.
enum class Priority : std::uint8_t {
  completion,   ///< Something in progress ends. First, so that what it held is free when this instant's newcomers ask.
  normal,       ///< Everything else, wake-ups included. Before observation, so that it acts on a state still changing.
  observation,  ///< Sampling and statistics. Last, so that it sees the instant's work already done.
};
inline constexpr int kNumPriorities = 3;

}  // namespace kvtide::engine
