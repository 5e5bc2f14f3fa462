#pragma once
// Where requests come from, one at a time, so that a run of a million of them needs no list.

#include <cstdint>
#include <optional>

#include "serving/request.h"

namespace kvtide::serving {

class RequestSource {
 public:
  virtual ~RequestSource() = default;
  /// When the next request arrives, never before the one taken last; none: not until a request finishes, or never.
  [[nodiscard]] virtual std::optional<Picoseconds> next_arrival() const = 0;
  /// @pre next_arrival() has a value
  [[nodiscard]] virtual Request take() = 0;
  /// A user has its answer (closed loops send the next request some time after it).
  virtual void on_finish(Picoseconds /*now*/) {}
  /// Requests left out so far because the model cannot hold them.
  [[nodiscard]] virtual std::int64_t num_dropped() const { return 0; }
  /// Whether a request that finishes may bring the next arrival forward (closed loops).
  [[nodiscard]] virtual bool reacts_to_finishes() const { return false; }
};

/// A recorded trace, played `repeats` times in a row; copies share prefix ids only within themselves.
class TraceSource : public RequestSource {
 public:
  /// @param trace  outlives this object  @param repeats  >= 1  @param gap  between the last arrival and the next copy's first
  explicit TraceSource(const RequestTrace& trace, std::int64_t repeats = 1, Picoseconds gap = Picoseconds{0});
  [[nodiscard]] std::optional<Picoseconds> next_arrival() const override;
  [[nodiscard]] Request take() override;

 private:
  const RequestTrace& trace_;
  std::int64_t repeats_;
  Picoseconds period_;
  std::int64_t copy_ = 0;
  std::size_t next_ = 0;
};

}  // namespace kvtide::serving
