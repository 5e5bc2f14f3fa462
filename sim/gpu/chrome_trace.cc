#include "gpu/chrome_trace.h"

#include <fmt/format.h>

#include <cmath>

#include "base/quoted_text.h"

namespace kvtide::gpu {
namespace {

/// Picoseconds as microseconds, exactly: 12,500,001 ps -> 12.500001.
std::string microseconds(Picoseconds time) {
  constexpr std::int64_t kPerMicrosecond = 1'000'000;
  return fmt::format("{}.{:06}", time.count() / kPerMicrosecond, time.count() % kPerMicrosecond);
}

}  // namespace

ChromeTrace::ChromeTrace(std::ostream& out, std::int64_t max_events) : out_(out), max_events_(max_events) {
  out_ << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
}

void ChromeTrace::begin_record() {
  out_ << (is_first_ ? "\n" : ",\n");
  is_first_ = false;
}

void ChromeTrace::metadata(const char* kind, std::int64_t process, std::int64_t thread, const std::string& name) {
  begin_record();
  out_ << fmt::format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", kind, process, thread,
                      quoted_text(name));
}

void ChromeTrace::name_process(std::int64_t process, const std::string& name) {
  metadata("process_name", process, 0, name);
}

void ChromeTrace::name_thread(std::int64_t process, std::int64_t thread, const std::string& name) {
  metadata("thread_name", process, thread, name);
}

void ChromeTrace::add(const TraceEvent& event) {
  if (num_written_ >= max_events_) {
    ++num_left_out_;
    return;
  }
  ++num_written_;
  begin_record();
  out_ << fmt::format(R"({{"name":{},"cat":{},"ph":"X","pid":{},"tid":{},"ts":{},"dur":{})", quoted_text(event.name),
                      quoted_text(event.category), event.process, event.thread, microseconds(event.start),
                      microseconds(event.duration));
  if (!event.arguments.empty()) {
    out_ << ",\"args\":{";
    bool is_first = true;
    for (const auto& [key, value] : event.arguments) {
      if (!std::isfinite(value)) continue;  // JSON has no NaN
      out_ << (is_first ? "" : ",") << fmt::format("{}:{}", quoted_text(key), value);
      is_first = false;
    }
    out_ << '}';
  }
  out_ << '}';
}

void ChromeTrace::close() {
  out_ << fmt::format("\n],\"otherData\":{{\"events\":{},\"events_left_out\":{},\"most_events\":{}}}}}\n", num_written_,
                      num_left_out_, max_events_);
}

}  // namespace kvtide::gpu
