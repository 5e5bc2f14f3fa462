#include <fmt/format.h>
#include <hdf5_hl.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/whole_file.h"
#include "hdf5/hdf5_file.h"
#include "hdf5/hdf5_handle.h"

namespace kvtide::hdf5 {
namespace {

using internal::error_text;
using internal::Handle;
using internal::QuietLibrary;

/// Arrays from here on are stored shuffled and deflated: 64 KiB, below which chunk bookkeeping outweighs the gain.
constexpr std::uint64_t kCompressFromBytes = 1ULL << 16;
/// Chunk size aimed at: inside the library's default chunk cache of 1 MiB (H5Pset_chunk_cache).
constexpr std::uint64_t kChunkBytes = 1ULL << 19;
constexpr unsigned kDeflateLevel = 4;
/// The file grows in memory in steps of 4 MiB.
constexpr std::size_t kImageIncrement = 1U << 22;

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
}

Handle utf8_type() {
  Handle type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.get(), H5T_VARIABLE);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  return type;
}

/// IEEE 754 binary16, little endian, as h5py's float16: sign bit 15, exponent 10..14 (bias 15), mantissa 0..9.
Handle float16_type() {
  Handle type(H5Tcopy(H5T_IEEE_F32LE));
  H5Tset_fields(type.get(), 15, 10, 5, 0, 10);
  H5Tset_size(type.get(), 2);
  H5Tset_ebias(type.get(), 15);
  return type;
}

/// Creation properties without time stamps, so that equal content gives equal bytes.
Handle timeless(hid_t list_class) {
  Handle properties(H5Pcreate(list_class));
  H5Pset_obj_track_times(properties.get(), false);
  return properties;
}

/// Whole rows of the slowest dimensions up to kChunkBytes; a dimension that alone is longer is cut.
std::vector<hsize_t> chunk_shape(const std::vector<hsize_t>& shape, std::uint64_t element_bytes) {
  std::vector<hsize_t> chunk = shape;
  std::uint64_t bytes = element_bytes;
  for (std::size_t i = shape.size(); i-- > 0;) {
    chunk[i] = std::clamp<hsize_t>(kChunkBytes / bytes, 1, shape[i]);
    bytes *= chunk[i];
  }
  return chunk;
}

}  // namespace

struct OutputFile::Impl {
  explicit Impl(const std::string& path) : destination(path) {}

  WholeFile destination;
  Handle file;
  std::map<std::string, hsize_t> scales;  ///< length by path

  [[noreturn]] void fail(const std::string& object, const std::string& what) const {
    throw EnvironmentError(fmt::format("{}: {}: {}", destination.path(), object, what));
  }
  void check(bool is_good, const std::string& object, const char* what) const {
    if (!is_good) fail(object, fmt::format("{}: {}", what, error_text()));
  }

  void create_group(const std::string& group) const {
    for (std::size_t at = group.find('/', 1); group != "/"; at = group.find('/', at + 1)) {
      const std::string part = group.substr(0, at);
      if (H5Lexists(file.get(), part.c_str(), H5P_DEFAULT) <= 0) {
        const Handle properties = timeless(H5P_GROUP_CREATE);
        const Handle created(H5Gcreate2(file.get(), part.c_str(), H5P_DEFAULT, properties.get(), H5P_DEFAULT));
        check(created.valid(), part, "the group cannot be created");
      }
      if (at == std::string::npos) return;
    }
  }

  void attribute(hid_t object, const std::string& place, const std::string& name, hid_t type, std::size_t count,
                 const void* value) const {
    const hsize_t extent = count;
    const Handle space(count == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &extent, nullptr));
    if (H5Aexists(object, name.c_str()) > 0) H5Adelete(object, name.c_str());
    const Handle created(H5Acreate2(object, name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT));
    check(created.valid() && H5Awrite(created.get(), type, value) >= 0, place + "@" + name,
          "the attribute cannot be written");
  }
  void text_attribute(hid_t object, const std::string& place, const std::string& name, const std::string& value) const {
    KVTIDE_ASSERT(value.find('\0') == std::string::npos, "an HDF5 text ends at its first NUL");
    const char* text = value.c_str();
    attribute(object, place, name, utf8_type().get(), 0, &text);
  }
  void describe(hid_t dataset, const std::string& place, const Description& description) const {
    text_attribute(dataset, place, "long_name", description.long_name);
    text_attribute(dataset, place, "units", description.units);
  }
  [[nodiscard]] Handle open(const std::string& object) const {
    Handle opened(H5Oopen(file.get(), object.c_str(), H5P_DEFAULT));
    check(opened.valid(), object, "cannot be opened");
    return opened;
  }

  /// Creates, fills and describes one dataset. @param fill  _FillValue of the file type, or null
  Handle dataset(const std::string& path_in_file, const std::vector<hsize_t>& shape, hid_t file_type, hid_t memory_type,
                 const void* values, const void* fill, const Description& description) const {
    create_group(parent_of(path_in_file));
    const Handle space(shape.empty() ? H5Screate(H5S_SCALAR)
                                     : H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
    const Handle properties = timeless(H5P_DATASET_CREATE);
    std::uint64_t elements = 1;
    for (const hsize_t extent : shape) elements *= extent;
    const std::size_t element_bytes = H5Tget_size(file_type);
    if (elements * element_bytes >= kCompressFromBytes && H5Tis_variable_str(file_type) <= 0) {
      const std::vector<hsize_t> chunk = chunk_shape(shape, element_bytes);
      H5Pset_chunk(properties.get(), static_cast<int>(chunk.size()), chunk.data());
      if (element_bytes > 1) H5Pset_shuffle(properties.get());
      H5Pset_deflate(properties.get(), kDeflateLevel);
    }
    if (fill != nullptr) H5Pset_fill_value(properties.get(), memory_type, fill);
    Handle created(H5Dcreate2(file.get(), path_in_file.c_str(), file_type, space.get(), H5P_DEFAULT, properties.get(),
                              H5P_DEFAULT));
    check(created.valid(), path_in_file, "the dataset cannot be created");
    if (elements > 0)
      check(H5Dwrite(created.get(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0, path_in_file,
            "the dataset cannot be written");
    if (fill != nullptr) attribute(created.get(), path_in_file, "_FillValue", memory_type, 1, fill);
    describe(created.get(), path_in_file, description);
    return created;
  }

  template <class T>
  void dimension(const std::string& path_in_file, const std::vector<T>& values, hid_t file_type, hid_t memory_type,
                 const Description& description) {
    const Handle created =
        dataset(path_in_file, {values.size()}, file_type, memory_type, values.data(), nullptr, description);
    const std::string name = path_in_file.substr(path_in_file.rfind('/') + 1);
    check(H5DSset_scale(created.get(), name.c_str()) >= 0, path_in_file, "cannot be made a dimension scale");
    scales[path_in_file] = values.size();
  }

  void over_dimensions(const std::string& path_in_file, std::size_t count, const std::vector<std::string>& dimensions,
                       hid_t file_type, hid_t memory_type, const void* values, const void* fill,
                       const Description& description) const {
    std::vector<hsize_t> shape;
    std::uint64_t elements = 1;
    for (const std::string& dimension : dimensions) {
      const auto found = scales.find(dimension);
      KVTIDE_ASSERT(found != scales.end(), fmt::format("{}: no dimension scale {}", path_in_file, dimension));
      const std::string group = parent_of(dimension);
      KVTIDE_ASSERT(group == "/" || path_in_file.starts_with(group + "/"),
                    fmt::format("{}: dimension {} is not in its group or an ancestor", path_in_file, dimension));
      shape.push_back(found->second);
      elements *= found->second;
    }
    KVTIDE_ASSERT(elements == count, fmt::format("{}: {} values for dimensions of {}", path_in_file, count, elements));
    const Handle created = dataset(path_in_file, shape, file_type, memory_type, values, fill, description);
    for (std::size_t i = 0; i < dimensions.size(); ++i) {
      const Handle scale(H5Dopen2(file.get(), dimensions[i].c_str(), H5P_DEFAULT));
      check(scale.valid() && H5DSattach_scale(created.get(), scale.get(), static_cast<unsigned>(i)) >= 0, path_in_file,
            "its dimension scale cannot be attached");
    }
  }
};

OutputFile::OutputFile(const std::string& path) : impl_(std::make_unique<Impl>(path)) {
  const QuietLibrary quiet;
  // Built in memory: HDF5 1.10.8 ends the process with a segmentation fault when a file on a full disk is closed.
  const Handle access(H5Pcreate(H5P_FILE_ACCESS));
  H5Pset_fapl_core(access.get(), kImageIncrement, false);
  H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG);
  const Handle creation = timeless(H5P_FILE_CREATE);
  impl_->file =
      Handle(H5Fcreate(impl_->destination.partial_path().c_str(), H5F_ACC_TRUNC, creation.get(), access.get()));
  impl_->check(impl_->file.valid(), "/", "cannot be created");
}

OutputFile::~OutputFile() {
  const QuietLibrary quiet;
  impl_.reset();
}
OutputFile::OutputFile(OutputFile&&) noexcept = default;
OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  const QuietLibrary quiet;
  impl_ = std::move(other.impl_);
  return *this;
}

void OutputFile::create_group(const std::string& group) {
  const QuietLibrary quiet;
  impl_->create_group(group);
}

void OutputFile::attribute(const std::string& object, const std::string& name, const std::string& value) {
  const QuietLibrary quiet;
  impl_->text_attribute(impl_->open(object).get(), object, name, value);
}

void OutputFile::attribute(const std::string& object, const std::string& name, std::int64_t value) {
  const QuietLibrary quiet;
  impl_->attribute(impl_->open(object).get(), object, name, H5T_NATIVE_INT64, 0, &value);
}

void OutputFile::attribute(const std::string& object, const std::string& name, double value) {
  const QuietLibrary quiet;
  impl_->attribute(impl_->open(object).get(), object, name, H5T_NATIVE_DOUBLE, 0, &value);
}

void OutputFile::attribute(const std::string& object, const std::string& name, const std::vector<std::int64_t>& value) {
  const QuietLibrary quiet;
  KVTIDE_ASSERT(!value.empty(), object + "@" + name + ": an attribute has at least one value");
  impl_->attribute(impl_->open(object).get(), object, name, H5T_NATIVE_INT64, value.size(), value.data());
}

void OutputFile::dimension(const std::string& path, const std::vector<std::int64_t>& values,
                           const Description& description) {
  const QuietLibrary quiet;
  impl_->dimension(path, values, H5T_STD_I64LE, H5T_NATIVE_INT64, description);
}

void OutputFile::dimension(const std::string& path, const std::vector<double>& values, const Description& description) {
  const QuietLibrary quiet;
  impl_->dimension(path, values, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, description);
}

void OutputFile::write(const std::string& path, std::span<const double> values,
                       const std::vector<std::string>& dimensions, const Description& description) {
  const QuietLibrary quiet;
  const double fill = std::numeric_limits<double>::quiet_NaN();
  impl_->over_dimensions(path, values.size(), dimensions, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, values.data(), &fill,
                         description);
}

void OutputFile::write(const std::string& path, std::span<const float> values,
                       const std::vector<std::string>& dimensions, const Description& description) {
  const QuietLibrary quiet;
  const float fill = std::numeric_limits<float>::quiet_NaN();
  impl_->over_dimensions(path, values.size(), dimensions, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, values.data(), &fill,
                         description);
}

void OutputFile::write(const std::string& path, std::span<const std::int64_t> values,
                       const std::vector<std::string>& dimensions, const Description& description) {
  const QuietLibrary quiet;
  impl_->over_dimensions(path, values.size(), dimensions, H5T_STD_I64LE, H5T_NATIVE_INT64, values.data(), nullptr,
                         description);
}

void OutputFile::write(const std::string& path, std::span<const std::uint8_t> values,
                       const std::vector<std::string>& dimensions, const Description& description) {
  const QuietLibrary quiet;
  impl_->over_dimensions(path, values.size(), dimensions, H5T_STD_U8LE, H5T_NATIVE_UINT8, values.data(), nullptr,
                         description);
}

void OutputFile::write(const std::string& path, std::span<const std::string> values,
                       const std::vector<std::string>& dimensions, const Description& description) {
  const QuietLibrary quiet;
  std::vector<const char*> texts;
  for (const std::string& value : values) {
    KVTIDE_ASSERT(value.find('\0') == std::string::npos, path + ": an HDF5 text ends at its first NUL");
    texts.push_back(value.c_str());
  }
  const Handle type = utf8_type();
  impl_->over_dimensions(path, values.size(), dimensions, type.get(), type.get(), texts.data(), nullptr, description);
}

void OutputFile::write_float16(const std::string& path, std::span<const float> values,
                               const std::vector<std::uint64_t>& shape, const Description& description) {
  const QuietLibrary quiet;
  std::uint64_t elements = 1;
  for (const std::uint64_t extent : shape) elements *= extent;
  KVTIDE_ASSERT(elements == values.size(), fmt::format("{}: {} values for {}", path, values.size(), elements));
  // Rounded by Eigen, to nearest even; the library's own conversion truncates subnormal halves.
  std::vector<std::uint16_t> bits(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto rounded = static_cast<Eigen::half>(values[i]);
    if (Eigen::numext::isinf(rounded) && !std::isinf(values[i]))
      throw InputError(fmt::format("{}: {} is {}, beyond float16 (65504)", impl_->destination.path(), path, values[i]));
    bits[i] = rounded.x;
  }
  const Handle type = float16_type();
  const std::vector<hsize_t> extents(shape.begin(), shape.end());
  (void)impl_->dataset(path, extents, type.get(), type.get(), bits.data(), nullptr, description);
}

void OutputFile::commit() {
  const QuietLibrary quiet;
  Impl& impl = *impl_;
  KVTIDE_ASSERT(impl.file.valid(), "a file is committed once");
  impl.check(H5Fflush(impl.file.get(), H5F_SCOPE_GLOBAL) >= 0, "/", "cannot be flushed");
  const ssize_t size = H5Fget_file_image(impl.file.get(), nullptr, 0);
  impl.check(size > 0, "/", "has no image");
  std::vector<char> image(static_cast<std::size_t>(size));
  impl.check(H5Fget_file_image(impl.file.get(), image.data(), image.size()) == size, "/", "has no image");
  impl.check(impl.file.reset(), "/", "cannot be closed");

  impl.destination.commit({image.data(), image.size()});
}

}  // namespace kvtide::hdf5
