#pragma once
// Owned HDF5 identifiers and the library's error stack as text. Included by this room's .cc files and fuzz/ only.

#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

namespace kvtide::hdf5::internal {

/// Closes its identifier with the function that fits the identifier's kind.
class Handle {
 public:
  Handle() = default;
  explicit Handle(hid_t id) : id_(id) {}
  ~Handle() { reset(); }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      id_ = std::exchange(other.id_, H5I_INVALID_HID);
    }
    return *this;
  }
  /// @return false when the library could not close it
  bool reset();
  [[nodiscard]] hid_t get() const { return id_; }
  [[nodiscard]] bool valid() const { return id_ >= 0; }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

/// Holds the library's mutex and keeps the library from printing. The switch belongs to the thread, so every call sets
/// it.
class QuietLibrary {
 public:
  QuietLibrary();
  ~QuietLibrary();
  QuietLibrary(const QuietLibrary&) = delete;
  QuietLibrary& operator=(const QuietLibrary&) = delete;

 private:
  std::unique_lock<std::recursive_mutex> lock_;
  H5E_auto2_t previous_print_ = nullptr;
  void* previous_client_ = nullptr;
};

/// The innermost message of the current error stack (the cause; the outer ones only say which calls passed it on), cut
/// at 200 characters because messages of damaged files can quote the damage. "unknown HDF5 error" when the stack is
/// empty.
[[nodiscard]] std::string error_text();

}  // namespace kvtide::hdf5::internal
