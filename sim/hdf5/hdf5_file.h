#pragma once
// The one place that calls the HDF5 C library: RAII handles, library errors as kvtide exceptions, checked shapes,
// netCDF-4 dimension scales (H5DS). hdf5.h stays out of this header.
//
// One thread at a time per process may use these classes (the Debian library has one global lock; other builds have
// none): the experiment's writer thread and the trace readers hold `library_mutex()` while they call.

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvtide::hdf5 {

/// Held by every call of this room; public so that a caller can group calls.
[[nodiscard]] std::recursive_mutex& library_mutex();

enum class ElementType : std::uint8_t {
  float16,
  bfloat16_bits,
  float32,
  float64,
  int32,
  int64,
  uint8,
  uint16,
  string,
  other
};

struct DatasetInfo {
  ElementType type;
  std::vector<std::uint64_t> shape;                  ///< slowest first
  [[nodiscard]] std::uint64_t num_elements() const;  ///< saturates at 2^64 - 1
};

/// An open file for reading. Every error names the file and the object's path. @throws InputError
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(InputFile&&) noexcept;
  InputFile& operator=(InputFile&&) noexcept;

  [[nodiscard]] const std::string& path() const;
  [[nodiscard]] bool exists(const std::string& object) const;
  [[nodiscard]] bool is_group(const std::string& object) const;
  [[nodiscard]] std::vector<std::string> children(const std::string& group) const;  ///< names, sorted
  [[nodiscard]] DatasetInfo info(const std::string& dataset) const;

  /// A hyperslab as float32 (float16, bfloat16 stored as uint16, float32, float64 are converted), row-major.
  /// Nothing is allocated before rank, type and extents are checked. @param start,count one value per dimension
  [[nodiscard]] std::vector<float> read_floats(const std::string& dataset, std::span<const std::uint64_t> start,
                                               std::span<const std::uint64_t> count,
                                               bool uint16_is_bfloat16 = false) const;
  [[nodiscard]] std::vector<float> read_floats(const std::string& dataset, bool uint16_is_bfloat16 = false) const;
  [[nodiscard]] std::vector<double> read_doubles(const std::string& dataset) const;
  [[nodiscard]] std::vector<std::int64_t> read_integers(const std::string& dataset) const;
  [[nodiscard]] std::vector<std::string> read_strings(const std::string& dataset) const;

  [[nodiscard]] bool has_attribute(const std::string& object, const std::string& name) const;
  [[nodiscard]] std::int64_t integer_attribute(const std::string& object, const std::string& name) const;
  [[nodiscard]] double number_attribute(const std::string& object, const std::string& name) const;
  [[nodiscard]] std::string string_attribute(const std::string& object, const std::string& name) const;
  [[nodiscard]] std::vector<std::int64_t> integers_attribute(const std::string& object, const std::string& name) const;
  [[nodiscard]] std::vector<double> numbers_attribute(const std::string& object, const std::string& name) const;
  /// An integer other than 0, or a boolean as h5py stores it (an enumeration of one byte).
  [[nodiscard]] bool flag_attribute(const std::string& object, const std::string& name) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What every variable carries; written as netCDF attributes.
struct Description {
  std::string long_name;
  std::string units = "1";  ///< "s", "us", "ns", "B", "token", "1"; never "seconds" (xarray makes timedelta64 of it)
};

/// A file being written: everything goes to PATH.partial-<pid>; commit() closes, fsyncs, renames and fsyncs the folder,
/// so that a file under its final name is always complete. Not committed: the partial file is removed by the
/// destructor. float datasets get _FillValue NaN. Default format bounds (readable by HDF5 1.10 and all later). @throws
/// EnvironmentError
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(OutputFile&&) noexcept;
  OutputFile& operator=(OutputFile&&) noexcept;

  void create_group(const std::string& group);  ///< and its parents; fine when it exists
  void attribute(const std::string& object, const std::string& name, const std::string& value);
  void attribute(const std::string& object, const std::string& name, std::int64_t value);
  void attribute(const std::string& object, const std::string& name, double value);
  void attribute(const std::string& object, const std::string& name, const std::vector<std::int64_t>& value);

  /// A one-dimensional dataset that is a dimension scale named by its last path element ("/summary/run").
  void dimension(const std::string& path, const std::vector<std::int64_t>& values, const Description& description);
  void dimension(const std::string& path, const std::vector<double>& values, const Description& description);

  /// An array over dimensions (paths of scales in the same group or an ancestor; the shape is theirs, checked).
  void write(const std::string& path, std::span<const double> values, const std::vector<std::string>& dimensions,
             const Description& description);
  void write(const std::string& path, std::span<const float> values, const std::vector<std::string>& dimensions,
             const Description& description);
  void write(const std::string& path, std::span<const std::int64_t> values, const std::vector<std::string>& dimensions,
             const Description& description);
  void write(const std::string& path, std::span<const std::uint8_t> values, const std::vector<std::string>& dimensions,
             const Description& description);
  void write(const std::string& path, std::span<const std::string> values, const std::vector<std::string>& dimensions,
             const Description& description);

  /// Raw float16 array without scales (attention traces). @param shape slowest first
  void write_float16(const std::string& path, std::span<const float> values, const std::vector<std::uint64_t>& shape,
                     const Description& description);

  void commit();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvtide::hdf5
