#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "hdf5/hdf5_file.h"
#include "hdf5/hdf5_handle.h"

namespace kvtide::hdf5 {
namespace {

using internal::error_text;
using internal::Handle;
using internal::QuietLibrary;

/// One KV head of the longest trace: 1,048,576 tokens of 512 channels.
constexpr std::uint64_t kMaxElementsPerRead = 1ULL << 29;
/// Numbers of 8 bytes are read whole: 64 for each token of the longest trace, 512 MiB.
constexpr std::uint64_t kMaxNumbersPerRead = 1ULL << 26;
constexpr std::uint64_t kMaxStringsPerRead = 1ULL << 22;
/// A filtered chunk is inflated whole, whatever part of it is asked for.
constexpr std::uint64_t kMaxChunkBytes = 1ULL << 28;
/// Deflate cannot shrink by more than 1032:1 (zlib technical details), so a dataset that declares more than that many
/// times the file's bytes was never written. Below this size the check is not worth refusing an honest fill value.
constexpr std::uint64_t kBestDeflateRatio = 1032;
constexpr std::uint64_t kUncheckedBytes = 1ULL << 26;
/// A chunk's place in the file's index takes 8 bytes at least (HDF5 format 3.0, VII.B), and over 200 in the library's memory.
constexpr std::uint64_t kLeastChunkEntry = 8;
constexpr std::uint64_t kUncheckedChunks = 1ULL << 18;
constexpr std::uint64_t kMaxAttributeElements = 4096;
constexpr std::size_t kMaxFixedStringBytes = 1U << 20;

std::uint64_t saturating_product(std::span<const std::uint64_t> factors) {
  unsigned __int128 product = 1;
  for (const std::uint64_t factor : factors) {
    if (factor == 0) return 0;
    if (product <= std::numeric_limits<std::uint64_t>::max()) product *= factor;
  }
  return product > std::numeric_limits<std::uint64_t>::max() ? std::numeric_limits<std::uint64_t>::max()
                                                             : static_cast<std::uint64_t>(product);
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

ElementType element_type(hid_t type) {
  const std::size_t size = H5Tget_size(type);
  const H5T_class_t kind = H5Tget_class(type);
  if (kind == H5T_STRING) return ElementType::string;
  if (kind == H5T_INTEGER && H5Tget_sign(type) == H5T_SGN_2)
    return size == 4 ? ElementType::int32 : size == 8 ? ElementType::int64 : ElementType::other;
  if (kind == H5T_INTEGER) return size == 1 ? ElementType::uint8 : size == 2 ? ElementType::uint16 : ElementType::other;
  if (kind != H5T_FLOAT) return ElementType::other;
  if (size == 8) return ElementType::float64;
  if (size == 4) return ElementType::float32;
  std::size_t sign = 0, exponent = 0, exponent_size = 0, mantissa = 0, mantissa_size = 0;
  if (size != 2 || H5Tget_fields(type, &sign, &exponent, &exponent_size, &mantissa, &mantissa_size) < 0)
    return ElementType::other;
  if (exponent_size == 5 && mantissa_size == 10) return ElementType::float16;
  return exponent_size == 8 && mantissa_size == 7 ? ElementType::bfloat16_bits : ElementType::other;
}

std::string type_name(ElementType type) {
  switch (type) {
    case ElementType::float16:
      return "float16";
    case ElementType::bfloat16_bits:
      return "bfloat16";
    case ElementType::float32:
      return "float32";
    case ElementType::float64:
      return "float64";
    case ElementType::int32:
      return "int32";
    case ElementType::int64:
      return "int64";
    case ElementType::uint8:
      return "uint8";
    case ElementType::uint16:
      return "uint16";
    case ElementType::string:
      return "string";
    case ElementType::other:
      break;
  }
  return "another type";
}

/// Extents of a simple dataspace. @return false for a null space, too many dimensions, or an error
bool read_shape(hid_t space, std::vector<std::uint64_t>& shape) {
  const H5S_class_t kind = H5Sget_simple_extent_type(space);
  if (kind != H5S_SIMPLE && kind != H5S_SCALAR) return false;
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank < 0 || rank > H5S_MAX_RANK) return false;
  std::vector<hsize_t> extents(static_cast<std::size_t>(rank));
  if (rank > 0 && H5Sget_simple_extent_dims(space, extents.data(), nullptr) < 0) return false;
  shape.assign(extents.begin(), extents.end());
  return true;
}

/// Reads strings of an attribute or dataset. `read` is H5Aread or H5Dread with the memory type given.
template <class Read>
bool read_string_elements(hid_t file_type, hid_t space, std::size_t count, const Read& read,
                          std::vector<std::string>& out) {
  const Handle type(H5Tcopy(H5T_C_S1));
  H5Tset_cset(type.get(), H5Tget_cset(file_type));
  if (H5Tis_variable_str(file_type) > 0) {
    H5Tset_size(type.get(), H5T_VARIABLE);
    std::vector<char*> texts(count, nullptr);
    const bool is_read = read(type.get(), texts.data()) >= 0;
    if (is_read)
      for (const char* text : texts) out.emplace_back(text == nullptr ? "" : text);
    H5Dvlen_reclaim(type.get(), space, H5P_DEFAULT, texts.data());
    return is_read;
  }
  const std::size_t width = H5Tget_size(file_type);
  if (width == 0 || width > kMaxFixedStringBytes || width * count > kUncheckedBytes) return false;
  H5Tset_size(type.get(), width);
  H5Tset_strpad(type.get(), H5Tget_strpad(file_type));
  std::vector<char> bytes(width * count);
  if (read(type.get(), bytes.data()) < 0) return false;
  for (std::size_t i = 0; i < count; ++i)
    out.emplace_back(bytes.data() + i * width, strnlen(bytes.data() + i * width, width));
  return true;
}

}  // namespace

std::uint64_t DatasetInfo::num_elements() const {
  return saturating_product(shape);
}

struct InputFile::Impl {
  std::string path;
  std::uint64_t file_bytes = 0;
  Handle file;

  [[noreturn]] void fail(const std::string& object, const std::string& what) const {
    throw InputError(object.empty() ? fmt::format("{}: {}", path, what)
                                    : fmt::format("{}: {}: {}", path, object, what));
  }

  /// Every link of the path resolves (the library has no single call for it).
  [[nodiscard]] bool exists(const std::string& object) const {
    if (object == "/") return true;
    for (std::size_t at = object.find('/', 1);; at = object.find('/', at + 1)) {
      const std::string part = object.substr(0, at);
      if (!part.empty() && (H5Lexists(file.get(), part.c_str(), H5P_DEFAULT) <= 0 ||
                            H5Oexists_by_name(file.get(), part.c_str(), H5P_DEFAULT) <= 0))
        return false;
      if (at == std::string::npos) return true;
    }
  }

  [[nodiscard]] Handle open_object(const std::string& object) const {
    if (!exists(object)) fail(object, "not in the file");
    Handle opened(H5Oopen(file.get(), object.c_str(), H5P_DEFAULT));
    if (!opened.valid()) fail(object, "cannot be opened: " + error_text());
    return opened;
  }

  struct Dataset {
    Handle id;
    Handle space;
    Handle type;
    DatasetInfo info;
  };

  [[nodiscard]] Dataset open_dataset(const std::string& object) const {
    Dataset dataset{open_object(object), {}, {}, {}};
    if (H5Iget_type(dataset.id.get()) != H5I_DATASET) fail(object, "a dataset was expected, found a group or a type");
    dataset.space = Handle(H5Dget_space(dataset.id.get()));
    dataset.type = Handle(H5Dget_type(dataset.id.get()));
    if (!dataset.space.valid() || !dataset.type.valid()) fail(object, "cannot be described: " + error_text());
    if (!read_shape(dataset.space.get(), dataset.info.shape)) fail(object, "has no array shape");
    dataset.info.type = element_type(dataset.type.get());
    return dataset;
  }

  /// The bounds every read passes before it allocates. @param elements how many will be read
  void check_size(const std::string& object, const Dataset& dataset, std::uint64_t elements,
                  std::uint64_t most_elements) const {
    if (elements > most_elements)
      fail(object,
           fmt::format("declares {} elements to read at once, at most {} are allowed", elements, most_elements));
    const std::uint64_t factors[] = {dataset.info.num_elements(), H5Tget_size(dataset.type.get())};
    const std::uint64_t declared = saturating_product(factors);
    const Handle properties(H5Dget_create_plist(dataset.id.get()));
    std::uint64_t most_bytes = file_bytes;
    if (properties.valid() && H5Pget_layout(properties.get()) == H5D_CHUNKED) {
      most_bytes = file_bytes * kBestDeflateRatio;
      std::vector<hsize_t> chunk(dataset.info.shape.size());
      if (H5Pget_chunk(properties.get(), static_cast<int>(chunk.size()), chunk.data()) < 0)
        fail(object, "its chunks cannot be described: " + error_text());
      std::vector<std::uint64_t> chunk_factors(chunk.begin(), chunk.end());
      chunk_factors.push_back(H5Tget_size(dataset.type.get()));
      if (const std::uint64_t chunk_bytes = saturating_product(chunk_factors); chunk_bytes > kMaxChunkBytes)
        fail(object, fmt::format("chunks of {} bytes, at most {} are allowed", chunk_bytes, kMaxChunkBytes));
      std::vector<std::uint64_t> chunk_counts;
      for (std::size_t axis = 0; axis < chunk.size(); ++axis) {
        const std::uint64_t extent = dataset.info.shape[axis];
        chunk_counts.push_back(extent / chunk[axis] + (extent % chunk[axis] != 0 ? 1 : 0));
      }
      const std::uint64_t chunks = saturating_product(chunk_counts);
      if (chunks > kUncheckedChunks && chunks > file_bytes / kLeastChunkEntry)
        fail(object, fmt::format("declares {} chunks, more than a file of {} bytes can hold", chunks, file_bytes));
    }
    if (declared > kUncheckedBytes && declared > most_bytes)
      fail(object, fmt::format("declares {} bytes, more than a file of {} bytes can hold", declared, file_bytes));
  }

  struct Attribute {
    Handle id;
    Handle type;
    std::vector<std::uint64_t> shape;
    std::size_t count = 0;
  };

  [[nodiscard]] Attribute open_attribute(const std::string& object, const std::string& name) const {
    if (!exists(object)) fail(object, "not in the file");
    const std::string place = object + "@" + name;
    if (H5Aexists_by_name(file.get(), object.c_str(), name.c_str(), H5P_DEFAULT) <= 0)
      fail(place, "the attribute is missing");
    Attribute attribute;
    attribute.id = Handle(H5Aopen_by_name(file.get(), object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT));
    if (!attribute.id.valid()) fail(place, "cannot be opened: " + error_text());
    attribute.type = Handle(H5Aget_type(attribute.id.get()));
    const Handle space(H5Aget_space(attribute.id.get()));
    if (!attribute.type.valid() || !space.valid() || !read_shape(space.get(), attribute.shape))
      fail(place, "has no array shape");
    const std::uint64_t elements = saturating_product(attribute.shape);
    if (elements == 0 || elements > kMaxAttributeElements)
      fail(place, fmt::format("has {} elements, 1..{} are allowed", elements, kMaxAttributeElements));
    attribute.count = static_cast<std::size_t>(elements);
    return attribute;
  }

  template <class T>
  [[nodiscard]] std::vector<T> numbers(const std::string& object, const std::string& name, hid_t memory_type,
                                       bool floats_allowed) const {
    const Attribute attribute = open_attribute(object, name);
    const H5T_class_t kind = H5Tget_class(attribute.type.get());
    if (kind != H5T_INTEGER && !(floats_allowed && kind == H5T_FLOAT))
      fail(object + "@" + name, floats_allowed ? "a number was expected" : "an integer was expected");
    std::vector<T> values(attribute.count);
    if (H5Aread(attribute.id.get(), memory_type, values.data()) < 0)
      fail(object + "@" + name, "cannot be read: " + error_text());
    return values;
  }

  template <class T>
  [[nodiscard]] T single(const std::string& object, const std::string& name, const std::vector<T>& values) const {
    if (values.size() != 1) fail(object + "@" + name, fmt::format("one value was expected, found {}", values.size()));
    return values.front();
  }
};

InputFile::InputFile(const std::string& path) : impl_(std::make_unique<Impl>()) {
  const QuietLibrary quiet;
  impl_->path = path;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    const int error = errno;
    const std::string message = fmt::format("{}: cannot be read: {}", path, std::strerror(error));
    if (error == EACCES) throw EnvironmentError(message);
    throw InputError(message);
  }
  if (!S_ISREG(status.st_mode)) throw InputError(path + ": a file was expected, found a folder or device");
  impl_->file_bytes = static_cast<std::uint64_t>(status.st_size);
  impl_->file = Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  if (impl_->file.valid()) return;
  const std::string text = error_text();
  if (text.find("Permission denied") != std::string::npos)
    throw EnvironmentError(path + ": cannot be read: Permission denied");
  if (text.find("lock file") != std::string::npos)
    throw EnvironmentError(path + ": is locked by a writer, or its file system refuses locks (then set " +
                           "HDF5_USE_FILE_LOCKING=FALSE): " + text);
  throw InputError(fmt::format("{}: not a readable HDF5 file ({} bytes): {}", path, impl_->file_bytes, text));
}

InputFile::~InputFile() {
  const QuietLibrary quiet;
  impl_.reset();
}
InputFile::InputFile(InputFile&&) noexcept = default;
InputFile& InputFile::operator=(InputFile&& other) noexcept {
  const QuietLibrary quiet;
  impl_ = std::move(other.impl_);
  return *this;
}

const std::string& InputFile::path() const {
  return impl_->path;
}

bool InputFile::exists(const std::string& object) const {
  const QuietLibrary quiet;
  return impl_->exists(object);
}

bool InputFile::is_group(const std::string& object) const {
  const QuietLibrary quiet;
  if (!impl_->exists(object)) return false;
  const Handle opened(H5Oopen(impl_->file.get(), object.c_str(), H5P_DEFAULT));
  return opened.valid() && H5Iget_type(opened.get()) == H5I_GROUP;
}

std::vector<std::string> InputFile::children(const std::string& group) const {
  const QuietLibrary quiet;
  const Handle opened = impl_->open_object(group);
  if (H5Iget_type(opened.get()) != H5I_GROUP) impl_->fail(group, "a group was expected");
  std::vector<std::string> names;
  const auto append = [](hid_t, const char* name, const H5L_info_t*, void* list) -> herr_t {
    static_cast<std::vector<std::string>*>(list)->emplace_back(name);
    return 0;
  };
  hsize_t next = 0;
  if (H5Literate(opened.get(), H5_INDEX_NAME, H5_ITER_NATIVE, &next, append, &names) < 0)
    impl_->fail(group, "cannot be listed: " + error_text());
  std::sort(names.begin(), names.end());
  return names;
}

DatasetInfo InputFile::info(const std::string& dataset) const {
  const QuietLibrary quiet;
  return impl_->open_dataset(dataset).info;
}

std::vector<float> InputFile::read_floats(const std::string& dataset, std::span<const std::uint64_t> start,
                                          std::span<const std::uint64_t> count, bool uint16_is_bfloat16) const {
  const QuietLibrary quiet;
  const Impl::Dataset opened = impl_->open_dataset(dataset);
  const ElementType type = opened.info.type;
  const std::vector<std::uint64_t>& shape = opened.info.shape;
  const bool is_bfloat16_in_integers = type == ElementType::uint16 && uint16_is_bfloat16;
  if (type != ElementType::float16 && type != ElementType::bfloat16_bits && type != ElementType::float32 &&
      type != ElementType::float64 && !is_bfloat16_in_integers)
    impl_->fail(dataset, "float16, bfloat16, float32 or float64 was expected, found " + type_name(type));
  KVTIDE_ASSERT(start.size() == count.size(), "a hyperslab's start and count have one value per dimension");
  if (start.size() != shape.size())
    impl_->fail(dataset, fmt::format("{} dimensions were expected, found shape {}", start.size(), shape_text(shape)));
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (start[i] > shape[i] || count[i] > shape[i] - start[i])
      impl_->fail(dataset, fmt::format("shape {} does not hold {} from {} along dimension {}", shape_text(shape),
                                       count[i], start[i], i));
  const std::uint64_t elements = saturating_product(count);
  impl_->check_size(dataset, opened, elements, kMaxElementsPerRead);
  if (elements == 0) return {};

  std::vector<float> values(elements);
  Handle memory_space;
  if (!shape.empty()) {
    const std::vector<hsize_t> first(start.begin(), start.end());
    const std::vector<hsize_t> extent(count.begin(), count.end());
    if (H5Sselect_hyperslab(opened.space.get(), H5S_SELECT_SET, first.data(), nullptr, extent.data(), nullptr) < 0)
      impl_->fail(dataset, "cannot be selected: " + error_text());
    memory_space = Handle(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr));
  } else {
    memory_space = Handle(H5Screate(H5S_SCALAR));
  }
  const auto read = [&](hid_t memory_type, void* into) {
    if (H5Dread(opened.id.get(), memory_type, memory_space.get(), opened.space.get(), H5P_DEFAULT, into) < 0)
      impl_->fail(dataset, "cannot be read: " + error_text());
  };
  if (type == ElementType::float16 || is_bfloat16_in_integers) {
    // Read as stored and widened here: the library's own conversion costs 0.13 us an element.
    std::vector<std::uint16_t> bits(elements);
    const Handle same_type(H5Tcopy(opened.type.get()));
    H5Tset_order(same_type.get(), std::endian::native == std::endian::little ? H5T_ORDER_LE : H5T_ORDER_BE);
    read(same_type.get(), bits.data());
    for (std::size_t i = 0; i < bits.size(); ++i)
      values[i] = is_bfloat16_in_integers
                      ? std::bit_cast<float>(static_cast<std::uint32_t>(bits[i]) << 16)
                      : static_cast<float>(Eigen::half(Eigen::half_impl::raw_uint16_to_half(bits[i])));
  } else {
    read(H5T_NATIVE_FLOAT, values.data());
  }
  return values;
}

std::vector<float> InputFile::read_floats(const std::string& dataset, bool uint16_is_bfloat16) const {
  const std::vector<std::uint64_t> shape = info(dataset).shape;
  const std::vector<std::uint64_t> start(shape.size(), 0);
  return read_floats(dataset, start, shape, uint16_is_bfloat16);
}

std::vector<double> InputFile::read_doubles(const std::string& dataset) const {
  const QuietLibrary quiet;
  const Impl::Dataset opened = impl_->open_dataset(dataset);
  const H5T_class_t kind = H5Tget_class(opened.type.get());
  if (kind != H5T_FLOAT && kind != H5T_INTEGER)
    impl_->fail(dataset, "numbers were expected, found " + type_name(opened.info.type));
  impl_->check_size(dataset, opened, opened.info.num_elements(), kMaxNumbersPerRead);
  std::vector<double> values(opened.info.num_elements());
  if (!values.empty() && H5Dread(opened.id.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) < 0)
    impl_->fail(dataset, "cannot be read: " + error_text());
  return values;
}

std::vector<std::int64_t> InputFile::read_integers(const std::string& dataset) const {
  const QuietLibrary quiet;
  const Impl::Dataset opened = impl_->open_dataset(dataset);
  if (H5Tget_class(opened.type.get()) != H5T_INTEGER)
    impl_->fail(dataset, "integers were expected, found " + type_name(opened.info.type));
  impl_->check_size(dataset, opened, opened.info.num_elements(), kMaxNumbersPerRead);
  std::vector<std::int64_t> values(opened.info.num_elements());
  if (!values.empty() && H5Dread(opened.id.get(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) < 0)
    impl_->fail(dataset, "cannot be read: " + error_text());
  return values;
}

std::vector<std::string> InputFile::read_strings(const std::string& dataset) const {
  const QuietLibrary quiet;
  const Impl::Dataset opened = impl_->open_dataset(dataset);
  if (opened.info.type != ElementType::string)
    impl_->fail(dataset, "strings were expected, found " + type_name(opened.info.type));
  impl_->check_size(dataset, opened, opened.info.num_elements(), kMaxStringsPerRead);
  std::vector<std::string> texts;
  if (opened.info.num_elements() == 0) return texts;
  const auto read = [&](hid_t type, void* into) {
    return H5Dread(opened.id.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, into);
  };
  if (!read_string_elements(opened.type.get(), opened.space.get(), opened.info.num_elements(), read, texts))
    impl_->fail(dataset, "cannot be read: " + error_text());
  return texts;
}

bool InputFile::has_attribute(const std::string& object, const std::string& name) const {
  const QuietLibrary quiet;
  return impl_->exists(object) && H5Aexists_by_name(impl_->file.get(), object.c_str(), name.c_str(), H5P_DEFAULT) > 0;
}

std::int64_t InputFile::integer_attribute(const std::string& object, const std::string& name) const {
  return impl_->single(object, name, integers_attribute(object, name));
}

double InputFile::number_attribute(const std::string& object, const std::string& name) const {
  const QuietLibrary quiet;
  return impl_->single(object, name, impl_->numbers<double>(object, name, H5T_NATIVE_DOUBLE, true));
}

std::string InputFile::string_attribute(const std::string& object, const std::string& name) const {
  const QuietLibrary quiet;
  const Impl::Attribute attribute = impl_->open_attribute(object, name);
  if (H5Tget_class(attribute.type.get()) != H5T_STRING) impl_->fail(object + "@" + name, "a text was expected");
  const Handle space(H5Aget_space(attribute.id.get()));
  std::vector<std::string> texts;
  const auto read = [&](hid_t type, void* into) { return H5Aread(attribute.id.get(), type, into); };
  if (!read_string_elements(attribute.type.get(), space.get(), attribute.count, read, texts))
    impl_->fail(object + "@" + name, "cannot be read: " + error_text());
  return impl_->single(object, name, texts);
}

std::vector<std::int64_t> InputFile::integers_attribute(const std::string& object, const std::string& name) const {
  const QuietLibrary quiet;
  return impl_->numbers<std::int64_t>(object, name, H5T_NATIVE_INT64, false);
}

std::vector<double> InputFile::numbers_attribute(const std::string& object, const std::string& name) const {
  const QuietLibrary quiet;
  return impl_->numbers<double>(object, name, H5T_NATIVE_DOUBLE, true);
}

bool InputFile::flag_attribute(const std::string& object, const std::string& name) const {
  const QuietLibrary quiet;
  const Impl::Attribute attribute = impl_->open_attribute(object, name);
  if (H5Tget_class(attribute.type.get()) != H5T_ENUM) return integer_attribute(object, name) != 0;
  std::int8_t value = 0;
  if (attribute.count != 1 || H5Tget_size(attribute.type.get()) != sizeof(value) ||
      H5Aread(attribute.id.get(), attribute.type.get(), &value) < 0)
    impl_->fail(object + "@" + name, "one flag was expected");
  return value != 0;
}

}  // namespace kvtide::hdf5
