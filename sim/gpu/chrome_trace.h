#pragma once
// A timeline that chrome://tracing and ui.perfetto.dev open: JSON in the Trace Event format (complete events "X", names
// of processes and threads as metadata "M"), written event by event.
//
// Example: {"name":"attention","ph":"X","pid":0,"tid":0,"ts":12.5,"dur":3.25,"args":{...}}; ts and dur in microseconds.

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"

namespace kvtide::gpu {

struct TraceEvent {
  std::string name;
  std::string category{};
  Picoseconds start{0};
  Picoseconds duration{0};
  std::int64_t process = 0;  ///< a pipeline stage
  std::int64_t thread = 0;   ///< a stream
  std::vector<std::pair<std::string, double>> arguments{};
};

class ChromeTrace {
 public:
  /// Events beyond are counted and left out: a viewer holds about a million, at 150 B each.
  static constexpr std::int64_t kMaxEvents = 500'000;

  /// @param out  outlives this object  @param max_events >= 0
  explicit ChromeTrace(std::ostream& out, std::int64_t max_events = kMaxEvents);

  void name_process(std::int64_t process, const std::string& name);
  void name_thread(std::int64_t process, std::int64_t thread, const std::string& name);
  void add(const TraceEvent& event);
  /// Ends the document; says in "otherData" how many events were written and left out, and the cap. Call once.
  void close();

  [[nodiscard]] std::int64_t num_written() const { return num_written_; }
  [[nodiscard]] std::int64_t num_left_out() const { return num_left_out_; }

 private:
  void begin_record();
  void metadata(const char* kind, std::int64_t process, std::int64_t thread, const std::string& name);

  std::ostream& out_;
  std::int64_t max_events_;
  std::int64_t num_written_ = 0;
  std::int64_t num_left_out_ = 0;
  bool is_first_ = true;
};

}  // namespace kvtide::gpu
