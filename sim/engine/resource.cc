#include "engine/resource.h"

#include <fmt/format.h>

#include "base/error.h"

namespace kvtide::engine {

void Hold::release() noexcept {
  if (!is_linked()) return;
  unlink();
  resource_->num_free_ += units_;
  resource_->serve();
}

void Hold::take_over(Hold& other) noexcept {
  if (!other.is_linked()) return;
  other.unlink();
  resource_ = other.resource_;
  units_ = other.units_;
  resource_->holds_.push_back(*this);
}

ResourceRequest::~ResourceRequest() {
  if (is_linked()) resource_->leave(*this);
}

bool ResourceRequest::await_ready() {
  if (!resource_->is_grantable(units_)) return false;
  resource_->grant(hold_, units_);
  return true;
}

void ResourceRequest::await_suspend(Process::Frame frame) {
  resource_->simulation_->require_own(frame);
  frame_ = frame;
  resource_->enqueue(*this);
}

Resource::Resource(Simulation& simulation, std::uint64_t capacity)
    : simulation_(&simulation), capacity_(capacity), num_free_(capacity) {
  if (capacity == 0) throw InputError("a resource of 0 units was asked for; allowed is 1 or more");
}

ResourceRequest Resource::request(std::uint64_t units, std::int32_t priority) {
  require_units(units);
  return {*this, units, priority};
}

Hold Resource::try_request(std::uint64_t units) {
  require_units(units);
  Hold hold;
  if (is_grantable(units)) grant(hold, units);
  return hold;
}

void Resource::require_units(std::uint64_t units) const {
  if (units >= 1 && units <= capacity_) return;
  throw InputError(
      fmt::format("{} units of a resource of {} were requested; allowed are 1 to {}", units, capacity_, capacity_));
}

bool Resource::is_grantable(std::uint64_t units) const noexcept {
  return lines_.empty() && units <= num_free_;
}

void Resource::grant(Hold& hold, std::uint64_t units) noexcept {
  num_free_ -= units;
  hold.resource_ = this;
  hold.units_ = units;
  holds_.push_back(hold);
}

void Resource::enqueue(ResourceRequest& request) {
  auto line = lines_.find(request.priority_);
  if (line == lines_.end()) {
    if (spare_.empty()) {
      line = lines_.try_emplace(request.priority_).first;
    } else {
      spare_.key() = request.priority_;
      line = lines_.insert(std::move(spare_)).position;
    }
  }
  line->second.push_back(request);
  ++num_waiting_;
}

void Resource::leave(ResourceRequest& request) noexcept {
  request.unlink();
  --num_waiting_;
  const auto line = lines_.find(request.priority_);
  if (line->second.empty()) drop_line(line);
  serve();  // it may have been the one that held up those behind it
}

void Resource::drop_line(Lines::iterator line) noexcept {
  spare_ = lines_.extract(line);
}

void Resource::serve() noexcept {
  while (!lines_.empty()) {
    const auto line = lines_.begin();
    ResourceRequest& first = line->second.front();
    if (first.units_ > num_free_) return;
    first.unlink();
    --num_waiting_;
    if (line->second.empty()) drop_line(line);
    grant(first.hold_, first.units_);
    simulation_->wake(first.frame_);
  }
}

}  // namespace kvtide::engine
