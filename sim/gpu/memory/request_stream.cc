#include "gpu/memory/request_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/random.h"

namespace kvtide::gpu {
namespace {

std::uint64_t hash2(std::uint64_t seed, std::uint64_t a) {
  return mix64(mix64(seed) ^ a);
}
std::uint64_t hash3(std::uint64_t seed, std::uint64_t a, std::uint64_t b) {
  return mix64(hash2(seed, a) ^ b);
}

constexpr std::uint64_t kWriteSalt = 0xAAAA, kGatherSalt = 0xBBBB, kTurnSalt = 0xCCCC, kBlockSalt = 0xDDDD;
constexpr std::int64_t kMaxStreams = 65536;
constexpr Bytes kPieceBytes = 256;  // one token of one head: 128 fp16 values

std::optional<std::int64_t> parse_count(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

}  // namespace

StreamPattern parse_stream_pattern(const std::string& name, Bytes block_bytes) {
  const auto fail = [&name]() {
    throw InputError(fmt::format(
        "stream pattern \"{}\": expected seq, gather<bytes>, random<bytes> or paged_n<streams>, then any of "
        "_w<percent>, _randil, _off<bytes>, _g<bytes>, _W<window>",
        name));
  };
  StreamPattern pattern;
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('_', begin), name.size());
    parts.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  const auto number = [&](const std::string& part, std::size_t prefix) {
    const auto value = parse_count(part.substr(prefix));
    if (!value) fail();
    return value.value_or(0);
  };
  std::size_t next = 1;
  if (parts[0] == "paged" && parts.size() > 1 && parts[1].starts_with("n")) {
    pattern.kind = StreamKind::paged;
    pattern.num_streams = number(parts[1], 1);
    pattern.block_bytes = block_bytes;
    next = 2;
  } else if (parts[0].starts_with("gather") || parts[0].starts_with("random")) {
    pattern.kind = StreamKind::gather;
    pattern.chunk_bytes = static_cast<Bytes>(number(parts[0], 6));
  } else if (parts[0] != "seq") {
    fail();
  }
  for (; next < parts.size(); ++next) {
    const std::string& part = parts[next];
    if (part == "randil") {
      pattern.is_randomly_interleaved = true;
    } else if (part.starts_with("off")) {
      pattern.block_offset = static_cast<Bytes>(number(part, 3));
    } else if (part.starts_with("w")) {
      pattern.write_percent = number(part, 1);
    } else if (part.starts_with("g")) {
      pattern.chunk_bytes = static_cast<Bytes>(number(part, 1));
    } else if (part.starts_with("W")) {
      (void)number(part, 1);
    } else {
      fail();
    }
  }
  return pattern;
}

ReferenceStream::ReferenceStream(const StreamPattern& pattern, Bytes capacity, Bytes burst_bytes)
    : pattern_(pattern),
      capacity_(capacity),
      burst_bytes_(burst_bytes),
      gather_key_(hash2(pattern.seed, kGatherSalt)),
      num_slots_(capacity / std::max<Bytes>(1, pattern.chunk_bytes)) {
  if (pattern.chunk_bytes < burst_bytes || pattern.chunk_bytes % burst_bytes != 0 || pattern.chunk_bytes > capacity) {
    throw InputError(fmt::format("a chunk of {} B: expected a multiple of the {} B burst, at most the capacity",
                                 pattern.chunk_bytes, burst_bytes));
  }
  if (pattern.num_streams < 1 || pattern.num_streams > kMaxStreams) {
    throw InputError(fmt::format("{} streams: expected 1..{}", pattern.num_streams, kMaxStreams));
  }
  if (pattern.write_percent < 0 || pattern.write_percent > 100) throw InputError("write percent: expected 0..100");
  if (pattern.kind == StreamKind::paged &&
      (pattern.block_bytes < pattern.chunk_bytes || pattern.block_bytes > capacity / 2)) {
    throw InputError(
        fmt::format("a block of {} B: expected {}..{} B", pattern.block_bytes, pattern.chunk_bytes, capacity / 2));
  }
  if (pattern.is_randomly_interleaved) taken_.assign(static_cast<std::size_t>(pattern.num_streams), 0);
}

std::uint64_t ReferenceStream::chunk_address(std::uint64_t chunk) {
  const Bytes size = pattern_.chunk_bytes;
  switch (pattern_.kind) {
    case StreamKind::sequential:
      return chunk * size % capacity_;
    case StreamKind::gather:
      return mix64(gather_key_ ^ chunk) % num_slots_ * size;
    case StreamKind::paged: {
      const auto num_streams = static_cast<std::uint64_t>(pattern_.num_streams);
      std::uint64_t stream = chunk % num_streams;
      std::uint64_t position = chunk / num_streams;
      if (pattern_.is_randomly_interleaved) {
        stream = hash3(pattern_.seed, kTurnSalt, chunk) % num_streams;
        position = taken_[stream]++;
      }
      const std::uint64_t block = position * size / pattern_.block_bytes;
      const std::uint64_t offset = position * size % pattern_.block_bytes;
      const std::uint64_t slot =
          hash3(pattern_.seed, kBlockSalt + stream, block) % (capacity_ / pattern_.block_bytes - 1);
      return (slot * pattern_.block_bytes + pattern_.block_offset + offset) % capacity_;
    }
  }
  return 0;
}

RequestRun ReferenceStream::next() {
  const std::uint64_t chunk = next_chunk_++;
  const bool is_write = pattern_.write_percent > 0 && hash3(pattern_.seed, kWriteSalt, chunk) % 100 <
                                                          static_cast<std::uint64_t>(pattern_.write_percent);
  return {.address = chunk_address(chunk),
          .num_bursts = static_cast<std::int64_t>(pattern_.chunk_bytes / burst_bytes_),
          .is_write = is_write};
}

PatternStream::PatternStream(const AccessPattern& pattern, std::int64_t num_streams, Bytes capacity, Bytes burst_bytes)
    : chunk_bytes_(pattern.chunk_bytes),
      burst_bytes_(burst_bytes),
      num_slots_(std::max<std::uint64_t>(1, capacity / std::max<Bytes>(1, pattern.chunk_bytes))),
      write_share_(pattern.write_share),
      walks_(static_cast<std::size_t>(num_streams)) {}

void PatternStream::start_chunk(std::size_t stream) {
  Walk& walk = walks_[stream];
  const std::uint64_t hash = hash3(1, kBlockSalt + stream, walk.num_chunks++);
  const std::uint64_t begin = hash % num_slots_ * chunk_bytes_;
  walk.begin = begin / burst_bytes_ * burst_bytes_;
  walk.end = (begin + chunk_bytes_ + burst_bytes_ - 1) / burst_bytes_ * burst_bytes_;
  walk.is_write = write_share_ > 0 && static_cast<double>(mix64(hash) >> 11) * 0x1.0p-53 < write_share_;
}

RequestRun PatternStream::next() {
  Walk& walk = walks_[turn_];
  if (walk.begin == walk.end) start_chunk(turn_);
  turn_ = turn_ + 1 == walks_.size() ? 0 : turn_ + 1;
  const std::uint64_t end = std::min(walk.end, (walk.begin / kPieceBytes + 1) * kPieceBytes);
  const RequestRun run{.address = walk.begin,
                       .num_bursts = static_cast<std::int64_t>((end - walk.begin + burst_bytes_ - 1) / burst_bytes_),
                       .is_write = walk.is_write};
  walk.begin = end;
  return run;
}

double PatternStream::useful_share() const {
  // A chunk that starts r bytes into a burst touches ceil((r + chunk) / burst) bursts; its starts are
  // multiples of chunk. Summed over all r, the touched bursts are the mean bytes transferred.
  std::uint64_t touched = 0;
  for (std::uint64_t slot = 0; slot < burst_bytes_; ++slot) {
    touched += (slot * chunk_bytes_ % burst_bytes_ + chunk_bytes_ + burst_bytes_ - 1) / burst_bytes_;
  }
  return static_cast<double>(chunk_bytes_) / static_cast<double>(touched);
}

}  // namespace kvtide::gpu
