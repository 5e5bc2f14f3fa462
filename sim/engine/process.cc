#include "engine/process.h"

#include "base/error.h"
#include "engine/event.h"
#include "engine/process_state.h"

namespace kvtide::engine {

ProcessHandle::ProcessHandle(ProcessState* state) noexcept : state_(state) {
  ++state_->num_owners;
}

ProcessHandle::ProcessHandle(const ProcessHandle& other) noexcept : state_(other.state_) {
  if (state_ != nullptr) ++state_->num_owners;
}

ProcessHandle::~ProcessHandle() {
  if (state_ != nullptr) state_->disown();
}

bool ProcessHandle::is_finished() const noexcept {
  return state_ == nullptr || !state_->frame;
}

bool ProcessHandle::cancel() const {
  return !is_finished() && state_->frame.promise().simulation->cancel_process(state_->frame);
}

Event& ProcessHandle::done() const {
  KVTIDE_ASSERT(state_ != nullptr, "an empty process handle has no end to wait for");
  return state_->done;
}

}  // namespace kvtide::engine
