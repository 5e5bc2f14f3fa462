#pragma once
// A number of equal units that processes hold for a while: a link, the bytes a core may have in flight, a decoder slot.
//
// Those who wait are served by priority (smaller first), then in order of asking. Nobody overtakes: while the first in
// line waits for more units than are free, a smaller request behind it waits too, so no request starves. Example: 4
// units, A holds 3, B asks for 2, C asks for 1: C waits although 1 unit is free; when A releases, B and C get theirs.

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "engine/simulation.h"
#include "engine/wait_list.h"

namespace kvtide::engine {

class Resource;

/// Units held; gives them back when released, destroyed or assigned to.
class [[nodiscard]] Hold : WaitNode {
 public:
  Hold() = default;
  Hold(Hold&& other) noexcept { take_over(other); }
  Hold& operator=(Hold&& other) noexcept {
    if (this != &other) {
      release();
      take_over(other);
    }
    return *this;
  }
  ~Hold() { release(); }

  /// Units held; 0 when empty, released or after the resource is gone.
  [[nodiscard]] std::uint64_t units() const noexcept { return is_linked() ? units_ : 0; }
  /// Gives the units back now. A second call does nothing.
  void release() noexcept;

 private:
  friend class Resource;
  friend class WaitList<Hold>;
  friend class ResourceRequest;
  void take_over(Hold& other) noexcept;

  Resource* resource_ = nullptr;
  std::uint64_t units_ = 0;
};

/// What Resource::request returns; await it at once for the Hold.
class [[nodiscard]] ResourceRequest : WaitNode {
 public:
  ResourceRequest(Resource& resource, std::uint64_t units, std::int32_t priority)
      : resource_(&resource), units_(units), priority_(priority) {}
  ResourceRequest(const ResourceRequest&) = delete;
  ResourceRequest& operator=(const ResourceRequest&) = delete;
  ~ResourceRequest();  // leaves the line when the process is cancelled there

  [[nodiscard]] bool await_ready();
  void await_suspend(Process::Frame frame);
  Hold await_resume() noexcept { return std::move(hold_); }

 private:
  friend class Resource;
  friend class WaitList<ResourceRequest>;

  Resource* resource_;
  std::uint64_t units_;
  std::int32_t priority_;
  Process::Frame frame_;
  Hold hold_;  // filled at the grant, so that a process cancelled before it wakes gives the units back
};

class Resource {
 public:
  /// @throws InputError when `capacity` is 0
  Resource(Simulation& simulation, std::uint64_t capacity);
  Resource(const Resource&) = delete;
  Resource& operator=(const Resource&) = delete;

  /// `Hold hold = co_await resource.request();` goes on at once when the units are free and nobody is in line.
  /// @param priority smaller goes first @throws InputError unless 1 <= units <= capacity()
  ResourceRequest request(std::uint64_t units = 1, std::int32_t priority = 0);
  /// For calls that cannot wait: an empty Hold when request() would have to. @throws InputError like request
  Hold try_request(std::uint64_t units = 1);

  [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::uint64_t num_free() const noexcept { return num_free_; }
  [[nodiscard]] std::size_t num_waiting() const noexcept { return num_waiting_; }

 private:
  friend class Hold;
  friend class ResourceRequest;
  using Lines = std::map<std::int32_t, WaitList<ResourceRequest>>;

  void require_units(std::uint64_t units) const;
  [[nodiscard]] bool is_grantable(std::uint64_t units) const noexcept;
  void grant(Hold& hold, std::uint64_t units) noexcept;
  void enqueue(ResourceRequest& request);
  void leave(ResourceRequest& request) noexcept;
  void drop_line(Lines::iterator line) noexcept;
  void serve() noexcept;

  Simulation* simulation_;
  std::uint64_t capacity_;
  std::uint64_t num_free_;
  std::size_t num_waiting_ = 0;
  WaitList<Hold> holds_;
  Lines lines_;             // by priority, none empty
  Lines::node_type spare_;  // the last line dropped, reused so that steady contention allocates nothing
};

}  // namespace kvtide::engine
