#pragma once
// Mutations of an HDF5 file by its objects instead of its bytes: the file stays one that the library opens, so that what is
// tried is our reading of it. Defines libFuzzer's own mutator; included by one source of a program.

#include <hdf5.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "hdf5/child_trial.h"
#include "hdf5/hdf5_handle.h"

namespace kvtide::fuzz {

using hdf5::internal::Handle;

/// One file in memory, changed by one random edit a call.
class Hdf5Edits {
 public:
  Hdf5Edits(const std::uint8_t* data, std::size_t size, unsigned seed) : random_(seed) {
    const Handle access(H5Pcreate(H5P_FILE_ACCESS));
    H5Pset_fapl_core(access.get(), 1U << 14U, 0);
    // The library copies the image; its signature merely is older than const.
    H5Pset_file_image(access.get(), const_cast<std::uint8_t*>(data), size);
    file_ = Handle(H5Fopen("edited", H5F_ACC_RDWR, access.get()));
    if (file_.valid()) collect("/");
  }

  [[nodiscard]] bool is_open() const { return file_.valid() && !names_.empty(); }

  void edit() {
    const std::string name = one_of(names_);
    switch (below(8)) {
      case 0:
        H5Ldelete(file_.get(), name.c_str(), H5P_DEFAULT);
        break;
      case 1:
        H5Lmove(file_.get(), name.c_str(), file_.get(), one_of(names_).append("x").c_str(), H5P_DEFAULT, H5P_DEFAULT);
        break;
      case 2:  // another object in its place: a dataset where a group belongs, or a group within itself
        put_another(name);
        break;
      case 3:
        replace_dataset(name);
        break;
      case 4:
      case 5:
        edit_attribute(name);
        break;
      default:
        overwrite_values(name);
    }
  }

  /// @return bytes written to `data`; 0 where they are more than `capacity`
  std::size_t save(std::uint8_t* data, std::size_t capacity) {
    H5Fflush(file_.get(), H5F_SCOPE_GLOBAL);
    const ssize_t size = H5Fget_file_image(file_.get(), nullptr, 0);
    if (size <= 0 || static_cast<std::size_t>(size) > capacity) return 0;
    return static_cast<std::size_t>(std::max<ssize_t>(0, H5Fget_file_image(file_.get(), data, capacity)));
  }

 private:
  static constexpr int kDeepest = 6;  // a group may contain itself

  std::size_t below(std::size_t bound) { return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_); }

  template <class Range>
  typename Range::value_type one_of(const Range& range) {
    return range[below(range.size())];
  }

  void collect(const std::string& group, int depth = 0) {
    const Handle opened(H5Gopen2(file_.get(), group.c_str(), H5P_DEFAULT));
    if (!opened.valid() || depth == kDeepest) return;
    std::vector<std::string> children;
    const auto append = [](hid_t, const char* name, const H5L_info_t*, void* list) -> herr_t {
      static_cast<std::vector<std::string>*>(list)->emplace_back(name);
      return 0;
    };
    hsize_t next = 0;
    H5Literate(opened.get(), H5_INDEX_NAME, H5_ITER_NATIVE, &next, append, &children);
    for (const std::string& child : children) {
      const std::string path = (group == "/" ? "" : group) + "/" + child;
      names_.push_back(path);
      collect(path, depth + 1);
    }
  }

  double number() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    static constexpr std::array<double, 16> kEdges{0,
                                                   1,
                                                   2,
                                                   -1,
                                                   3,
                                                   0.5,
                                                   17,
                                                   255,
                                                   4096,
                                                   65536,
                                                   2147483648.0,
                                                   9.3e18,
                                                   -9.3e18,
                                                   1e308,
                                                   kInfinity,
                                                   std::numeric_limits<double>::quiet_NaN()};
    return one_of(kEdges);
  }

  Handle type() {
    const std::array<hid_t, 8> known{H5T_NATIVE_INT8,  H5T_NATIVE_INT32,  H5T_NATIVE_INT64,  H5T_NATIVE_UINT16,
                                     H5T_NATIVE_UINT8, H5T_NATIVE_UINT64, H5T_NATIVE_DOUBLE, H5T_NATIVE_FLOAT};
    if (below(5) > 0) return Handle(H5Tcopy(one_of(known)));
    Handle text(H5Tcopy(H5T_C_S1));
    H5Tset_size(text.get(), one_of(std::array<std::size_t, 3>{1, 5, H5T_VARIABLE}));
    return text;
  }

  Handle space(bool is_small) {
    if (below(6) == 0) return Handle(H5Screate(one_of(std::array{H5S_SCALAR, H5S_NULL})));
    std::vector<hsize_t> extents(1 + below(4));
    static constexpr std::array<hsize_t, 9> kExtents{0, 1, 2, 3, 4, 16, 17, 4096, hsize_t{1} << 40U};
    for (hsize_t& extent : extents) extent = kExtents[below(is_small ? 6 : kExtents.size())];
    return Handle(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr));
  }

  /// Elements of `of`, of edge values; text of variable length is left to the library's null.
  std::vector<std::uint8_t> values(hid_t of, hssize_t count) {
    const std::size_t size = H5Tget_size(of);
    std::vector<std::uint8_t> bytes(size * static_cast<std::size_t>(count), 0);
    if (H5Tis_variable_str(of) > 0) return bytes;
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      if (H5Tget_class(of) == H5T_STRING) {
        for (std::size_t letter = 0; letter < size; ++letter)
          bytes[at + letter] = static_cast<std::uint8_t>(below(256));
        continue;
      }
      std::array<double, 8> one{number()};  // converted where it stands: room for the widest type
      if (H5Tconvert(H5T_NATIVE_DOUBLE, of, 1, one.data(), nullptr, H5P_DEFAULT) < 0 || size > sizeof one) continue;
      const auto* converted = reinterpret_cast<const std::uint8_t*>(one.data());
      std::copy(converted, converted + size, bytes.begin() + static_cast<std::ptrdiff_t>(at));
    }
    return bytes;
  }

  void put_another(const std::string& name) {
    const std::string other = one_of(names_);
    if (other == name) return;
    H5Ldelete(file_.get(), name.c_str(), H5P_DEFAULT);
    if (below(4) == 0)
      H5Lcreate_soft(other.c_str(), file_.get(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT);
    else
      H5Lcreate_hard(file_.get(), other.c_str(), file_.get(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT);
  }

  void replace_dataset(const std::string& name) {
    const Handle of = type();
    const Handle extent = space(false);
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
    const int rank = H5Sget_simple_extent_ndims(extent.get());
    if (rank > 0) {  // chunked, so that a huge extent takes no room
      std::vector<hsize_t> chunk(static_cast<std::size_t>(rank), 2);
      H5Pset_chunk(properties.get(), rank, chunk.data());
      if (below(2) == 0) H5Pset_deflate(properties.get(), 1);
    }
    H5Ldelete(file_.get(), name.c_str(), H5P_DEFAULT);
    const Handle created(
        H5Dcreate2(file_.get(), name.c_str(), of.get(), extent.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT));
  }

  void edit_attribute(const std::string& name) {
    const Handle object(H5Oopen(file_.get(), below(2) == 0 ? "/" : name.c_str(), H5P_DEFAULT));
    const int count = object.valid() ? H5Aget_num_attrs(object.get()) : 0;
    if (count <= 0) return;
    Handle attribute(H5Aopen_by_idx(object.get(), ".", H5_INDEX_NAME, H5_ITER_INC,
                                    below(static_cast<std::size_t>(count)), H5P_DEFAULT, H5P_DEFAULT));
    std::array<char, 256> called{};
    if (!attribute.valid() || H5Aget_name(attribute.get(), called.size(), called.data()) < 0) return;
    if (below(2) == 0) {  // only another value
      const Handle of(H5Aget_type(attribute.get()));
      const Handle extent(H5Aget_space(attribute.get()));
      write_attribute(attribute, of, extent);
      return;
    }
    attribute.reset();
    H5Adelete(object.get(), called.data());
    if (below(3) == 0) return;
    const Handle of = type();
    const Handle extent = space(true);
    const Handle created(H5Acreate2(object.get(), called.data(), of.get(), extent.get(), H5P_DEFAULT, H5P_DEFAULT));
    if (created.valid()) write_attribute(created, of, extent);
  }

  void write_attribute(const Handle& attribute, const Handle& of, const Handle& extent) {
    const hssize_t count = H5Sget_simple_extent_npoints(extent.get());
    if (count > 0 && count <= 4096) H5Awrite(attribute.get(), of.get(), values(of.get(), count).data());
  }

  void overwrite_values(const std::string& name) {
    const Handle dataset(H5Dopen2(file_.get(), name.c_str(), H5P_DEFAULT));
    if (!dataset.valid()) return;
    const Handle of(H5Dget_type(dataset.get()));
    const Handle extent(H5Dget_space(dataset.get()));
    const hssize_t points = H5Sget_simple_extent_npoints(extent.get());
    const int rank = H5Sget_simple_extent_ndims(extent.get());
    if (points <= 0 || rank < 0) return;
    if (rank > 0) {  // one element
      std::vector<hsize_t> extents(static_cast<std::size_t>(rank)), place(extents.size());
      H5Sget_simple_extent_dims(extent.get(), extents.data(), nullptr);
      for (std::size_t axis = 0; axis < place.size(); ++axis) place[axis] = below(extents[axis]);
      H5Sselect_elements(extent.get(), H5S_SELECT_SET, 1, place.data());
    }
    const Handle one(H5Screate(H5S_SCALAR));
    H5Dwrite(dataset.get(), of.get(), one.get(), extent.get(), H5P_DEFAULT, values(of.get(), 1).data());
  }

  std::minstd_rand random_;
  Handle file_;
  std::vector<std::string> names_;
};

}  // namespace kvtide::fuzz

/// The library finds every edited file whole, so what crashes is ours: no trial hides it. @return 0
extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  kvtide::hdf5::try_in_place();
  return 0;
}

/// libFuzzer's place for a mutator. @return the new size
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  const kvtide::hdf5::internal::QuietLibrary quiet;
  kvtide::fuzz::Hdf5Edits file(data, size, seed);
  if (!file.is_open()) return size;
  for (unsigned edits = 1 + seed % 3; edits > 0; --edits) file.edit();
  const std::size_t saved = file.save(data, max_size);
  return saved > 0 ? saved : size;
}
