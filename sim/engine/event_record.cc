#include "engine/event_record.h"

#include <algorithm>

namespace kvtide::engine {

void EventRecordPool::grow() {
  chunks_.reserve(chunks_.size() + 1);
  const std::size_t needed = (chunks_.size() + 1) * kChunk;
  if (free_.capacity() < needed) free_.reserve(std::max(needed, 2 * free_.capacity()));
  chunks_.push_back(std::make_unique<EventRecord[]>(kChunk));
  EventRecord* chunk = chunks_.back().get();
  for (std::size_t i = kChunk; i-- > 0;) free_.push_back(chunk + i);
}

}  // namespace kvtide::engine
