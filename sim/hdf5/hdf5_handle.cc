#include "hdf5/hdf5_handle.h"

#include <algorithm>

#include "hdf5/hdf5_file.h"

namespace kvtide::hdf5 {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

namespace internal {
namespace {

herr_t keep_innermost(unsigned depth, const H5E_error2_t* entry, void* text) {
  if (depth == 0 && entry->desc != nullptr) *static_cast<std::string*>(text) = entry->desc;
  return 0;
}

}  // namespace

bool Handle::reset() {
  const hid_t id = std::exchange(id_, H5I_INVALID_HID);
  if (id < 0) return true;
  const H5I_type_t kind = H5Iget_type(id);
  if (kind == H5I_FILE) return H5Fclose(id) >= 0;
  if (kind == H5I_GROUP) return H5Gclose(id) >= 0;
  if (kind == H5I_DATASET) return H5Dclose(id) >= 0;
  if (kind == H5I_DATASPACE) return H5Sclose(id) >= 0;
  if (kind == H5I_DATATYPE) return H5Tclose(id) >= 0;
  if (kind == H5I_ATTR) return H5Aclose(id) >= 0;
  if (kind == H5I_GENPROP_LST) return H5Pclose(id) >= 0;
  return H5Idec_ref(id) >= 0;
}

QuietLibrary::QuietLibrary() : lock_(library_mutex()) {
  H5Eget_auto2(H5E_DEFAULT, &previous_print_, &previous_client_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

QuietLibrary::~QuietLibrary() {
  // A thread that ends with entries on its stack leaves references behind: the library then complains at process end.
  H5Eclear2(H5E_DEFAULT);
  H5Eset_auto2(H5E_DEFAULT, previous_print_, previous_client_);
}

std::string error_text() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, &text);
  if (text.empty()) return "unknown HDF5 error";
  constexpr std::size_t kLongest = 200;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return text;
}

}  // namespace internal
}  // namespace kvtide::hdf5
