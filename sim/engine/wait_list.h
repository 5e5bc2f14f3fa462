#pragma once
// Who waits for something, in order of arrival, as a doubly linked list through nodes that lie in the waiters
// themselves (mostly in coroutine frames). Either side may die first: a node leaves its list, a list lets go of its
// nodes.

namespace kvtide::engine {

/// A place in a WaitList. Cannot be copied or moved: the list holds its address.
class WaitNode {
 public:
  WaitNode() = default;
  WaitNode(const WaitNode&) = delete;
  WaitNode& operator=(const WaitNode&) = delete;
  ~WaitNode() { unlink(); }

  [[nodiscard]] bool is_linked() const noexcept { return next_ != nullptr; }
  void unlink() noexcept {
    if (next_ == nullptr) return;
    previous_->next_ = next_;
    next_->previous_ = previous_;
    next_ = previous_ = nullptr;
  }

 private:
  template <class Node>
  friend class WaitList;
  WaitNode* previous_ = nullptr;
  WaitNode* next_ = nullptr;
};

/// @tparam Node derived from WaitNode
template <class Node>
class WaitList {
 public:
  WaitList() { ends_.previous_ = ends_.next_ = &ends_; }
  WaitList(const WaitList&) = delete;
  WaitList& operator=(const WaitList&) = delete;
  ~WaitList() {
    while (!empty()) front().unlink();
  }

  [[nodiscard]] bool empty() const noexcept { return ends_.next_ == &ends_; }
  /// The longest waiting node. The list must not be empty.
  [[nodiscard]] Node& front() noexcept { return *static_cast<Node*>(ends_.next_); }
  [[nodiscard]] Node& back() noexcept { return *static_cast<Node*>(ends_.previous_); }
  void push_back(Node& node) noexcept {
    WaitNode& link = node;
    link.previous_ = ends_.previous_;
    link.next_ = &ends_;
    ends_.previous_->next_ = &link;
    ends_.previous_ = &link;
  }

 private:
  WaitNode ends_;
};

}  // namespace kvtide::engine
