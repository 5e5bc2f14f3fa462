#pragma once
// What the `sampled` tier found out, kept in a file from one process to the next.
//
// One file a device, <folder>/<hash of the device>.csv: a head line with every number the simulation depends on, then one
// line a signature. Numbers are hexadecimal floating point, so that what is read is what was simulated, bit for bit.
// Several processes may share a folder: a line is appended with one write, and a line that cannot be read (a torn one, a
// damaged file, another version) is simulated again.

#include <filesystem>
#include <map>
#include <string>
#include <tuple>

#include "gpu/access_pattern.h"
#include "gpu/memory/memory_device.h"

namespace kvtide::gpu {

/// Order of patterns in memory and on disk; any total order does.
struct PatternOrder {
  bool operator()(const AccessPattern& a, const AccessPattern& b) const {
    const auto key = [](const AccessPattern& p) {
      return std::tuple(p.chunk_bytes, p.num_streams, p.write_share, p.bytes_in_flight);
    };
    return key(a) < key(b);
  }
};
using KnownSignatures = std::map<AccessPattern, MemoryPerformance, PatternOrder>;

/// Every number of the device that a simulation depends on, as one line of text.
[[nodiscard]] std::string device_description(const MemoryDevice& device);

class SignatureStore {
 public:
  /// Reads what is known of the device. A folder that cannot be read or made is an empty store: nothing is lost but
  /// time. @param folder  empty: nothing is kept
  SignatureStore(const std::filesystem::path& folder, const MemoryDevice& device);

  [[nodiscard]] const KnownSignatures& known() const { return known_; }
  /// Appends one signature; silently keeps none when the disk does not take it.
  void add(const AccessPattern& pattern, const MemoryPerformance& performance) const;

 private:
  std::filesystem::path file_;
  KnownSignatures known_;
};

/// The folder named by the environment variable KVTIDE_MEMORY_CACHE; empty where it is not set.
[[nodiscard]] std::filesystem::path signature_folder();

}  // namespace kvtide::gpu
