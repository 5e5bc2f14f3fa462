#pragma once
// Streams of memory requests, endless and a pure function of their description.

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "gpu/access_pattern.h"

namespace kvtide::gpu {

/// Consecutive bursts of one kind, issued back to back.
struct RequestRun {
  std::uint64_t address = 0;  ///< of the first burst, a multiple of the burst size
  std::int64_t num_bursts = 0;
  bool is_write = false;
};

class RequestSource {
 public:
  virtual ~RequestSource() = default;
  [[nodiscard]] virtual RequestRun next() = 0;
};

/// How a reference stream chooses the address of its chunk c.
enum class StreamKind : std::uint8_t {
  sequential,  ///< c * chunk_bytes
  gather,      ///< a random multiple of chunk_bytes
  paged,       ///< num_streams walks through random blocks of block_bytes, one chunk of each stream in turn
};

struct StreamPattern {
  StreamKind kind = StreamKind::sequential;
  Bytes chunk_bytes = 256;               ///< > 0
  std::int64_t num_streams = 1;          ///< paged only, 1..65536
  Bytes block_bytes = 16384;             ///< paged only, a multiple of chunk_bytes, < capacity / 2
  Bytes block_offset = 0;                ///< paged only: blocks start this late
  bool is_randomly_interleaved = false;  ///< paged only: streams take turns at random instead of round robin
  std::int64_t write_percent = 0;        ///< share of chunks that are writes, 0..100
  std::uint64_t seed = 1;
};

/// The reference name of a pattern: "seq", "seq_w5", "gather256", "random64_w5", "paged_n64", "paged_n64_w5",
/// "paged_n64_randil", "paged_n64_off512". Suffixes that name a window or a chunk size (_W1024, _g4096) are read too;
/// the window is ignored here.
/// @throws InputError for any other name
[[nodiscard]] StreamPattern parse_stream_pattern(const std::string& name, Bytes block_bytes);

/// The streams that the published runs of two DRAM simulators were fed with (SplitMix64-hashed chunk addresses).
///
/// Example, seq: chunks at 0, 256, 512, ...; paged with num_streams 2, block 512 B: chunks 0, 2 are the first and
/// second 256 B of stream 0's first random block, chunks 1, 3 those of stream 1's.
class ReferenceStream : public RequestSource {
 public:
  /// @throws InputError when the pattern does not fit the capacity
  ReferenceStream(const StreamPattern& pattern, Bytes capacity, Bytes burst_bytes);
  [[nodiscard]] RequestRun next() override;

 private:
  [[nodiscard]] std::uint64_t chunk_address(std::uint64_t chunk);

  StreamPattern pattern_;
  Bytes capacity_, burst_bytes_;
  std::uint64_t gather_key_, num_slots_;  // hash of a chunk begins with; places a chunk may be at
  std::uint64_t next_chunk_ = 0;
  std::vector<std::uint64_t> taken_;  // [stream] chunks already given out; random interleaving only
};

/// A kernel's access pattern as requests: num_streams walks, each through chunks at random multiples of chunk_bytes,
/// read in aligned pieces of up to 256 B, one piece of each stream in turn.
class PatternStream : public RequestSource {
 public:
  /// @param num_streams  1..65536
  PatternStream(const AccessPattern& pattern, std::int64_t num_streams, Bytes capacity, Bytes burst_bytes);
  [[nodiscard]] RequestRun next() override;
  /// Mean share of the transferred bytes that the pattern asked for; 1 when chunks are whole bursts.
  [[nodiscard]] double useful_share() const;

 private:
  struct Walk {
    std::uint64_t begin = 0, end = 0;
    std::uint64_t num_chunks = 0;
    bool is_write = false;
  };
  void start_chunk(std::size_t stream);

  Bytes chunk_bytes_, burst_bytes_;
  std::uint64_t num_slots_;
  double write_share_;
  std::vector<Walk> walks_;
  std::size_t turn_ = 0;
};

}  // namespace kvtide::gpu
