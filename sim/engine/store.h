#pragma once
// A buffer of things between processes that put and processes that get, first in, first out.
//
// A put into a full store waits, a get from an empty one too; each side is served in order of asking. A thing put while
// someone waits for it is handed over directly and wakes that process at the same instant. Example: capacity 1, puts of
// a, b at 0 ps, gets at 5 and 9 ps: a is stored at 0, b at 5 (when a leaves), b leaves at 9.

#include <cstddef>
#include <deque>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "engine/simulation.h"
#include "engine/wait_list.h"

namespace kvtide::engine {

template <class Item>
class Store {
  static_assert(std::is_nothrow_move_constructible_v<Item>, "an item on its way must not be lost to an exception");

 public:
  class Put;
  class Get;

  /// @throws InputError when `capacity` is 0
  explicit Store(Simulation& simulation, std::size_t capacity = std::numeric_limits<std::size_t>::max())
      : simulation_(&simulation), capacity_(capacity) {
    if (capacity == 0) throw InputError("a store for 0 items was asked for; allowed is 1 or more");
  }
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// `co_await store.put(item)` goes on once the item is stored or handed over. A process cancelled before keeps
  /// nothing in the store.
  Put put(Item item) { return Put(*this, std::move(item)); }
  /// `Item item = co_await store.get();`
  Get get() { return Get(*this); }
  /// For calls that cannot wait. @return false, leaving `item` as it is, when put() would wait
  bool try_put(Item& item);
  /// @return nothing when get() would wait
  std::optional<Item> try_get();

  [[nodiscard]] std::size_t size() const noexcept { return items_.size(); }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

 private:
  void accept_waiting_put();
  void hand_over(Item&& item);
  void hand_back(Get& get) noexcept;

  Simulation* simulation_;
  std::size_t capacity_;
  std::deque<Item> items_;
  WaitList<Put> puts_;  // not empty only while the store is full
  WaitList<Get> gets_;  // not empty only while the store is empty
  WaitList<Get>
      handed_over_;  // have their item and have not yet woken; linked so that a store that dies first is not touched
};

template <class Item>
class [[nodiscard]] Store<Item>::Put : WaitNode {
 public:
  Put(Store& store, Item&& item) : store_(&store), item_(std::move(item)) {}

  [[nodiscard]] bool await_ready() { return store_->try_put(item_); }
  void await_suspend(Process::Frame frame) {
    store_->simulation_->require_own(frame);
    frame_ = frame;
    store_->puts_.push_back(*this);
  }
  void await_resume() const noexcept {}

 private:
  friend class Store;
  friend class WaitList<Put>;
  Store* store_;
  Item item_;
  Process::Frame frame_;
};

template <class Item>
class [[nodiscard]] Store<Item>::Get : WaitNode {
 public:
  explicit Get(Store& store) : store_(&store) {}
  Get(const Get&) = delete;
  Get& operator=(const Get&) = delete;
  /// An item already handed to a process that is cancelled before it wakes goes back to the front
  /// (the store may then hold one item more than its capacity).
  ~Get() {
    if (is_linked() && item_) store_->hand_back(*this);
  }

  [[nodiscard]] bool await_ready() { return (item_ = store_->try_get()).has_value(); }
  void await_suspend(Process::Frame frame) {
    store_->simulation_->require_own(frame);
    frame_ = frame;
    store_->gets_.push_back(*this);
  }
  Item await_resume() noexcept {
    unlink();
    return std::move(*item_);
  }

 private:
  friend class Store;
  friend class WaitList<Get>;
  Store* store_;
  std::optional<Item> item_;
  Process::Frame frame_;
};

template <class Item>
bool Store<Item>::try_put(Item& item) {
  if (!gets_.empty()) {
    hand_over(std::move(item));
    return true;
  }
  if (items_.size() >= capacity_) return false;
  items_.push_back(std::move(item));
  return true;
}

template <class Item>
void Store<Item>::hand_over(Item&& item) {
  Get& first = gets_.front();
  first.unlink();
  first.item_.emplace(std::move(item));
  handed_over_.push_back(first);
  simulation_->wake(first.frame_);
}

template <class Item>
std::optional<Item> Store<Item>::try_get() {
  if (items_.empty()) return std::nullopt;
  std::optional<Item> item(std::move(items_.front()));
  items_.pop_front();
  accept_waiting_put();
  return item;
}

template <class Item>
void Store<Item>::accept_waiting_put() {
  if (puts_.empty()) return;
  Put& first = puts_.front();
  first.unlink();
  items_.push_back(std::move(first.item_));
  simulation_->wake(first.frame_);
}

template <class Item>
void Store<Item>::hand_back(Get& get) noexcept {
  get.unlink();
  if (gets_.empty()) {
    items_.push_front(std::move(*get.item_));
  } else {
    hand_over(std::move(*get.item_));
  }
}

}  // namespace kvtide::engine
