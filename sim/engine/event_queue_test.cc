#include "engine/event_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "base/random.h"

namespace kvtide::engine {
namespace {

constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

/// A queue with its records, where an event is named by its serial number.
class EventQueueTest : public testing::Test {
 protected:
  void push(std::int64_t time, Priority priority = Priority::normal) {
    EventRecord* record = pool_.take();
    record->serial = ++last_serial_;
    queue_.push({time, (static_cast<std::uint64_t>(priority) << QueueEntry::kSerialBits) | last_serial_, record});
    records_.push_back(record);
  }
  /// Serial of the next event up to `limit`, the clock moved to it; 0 when there is none.
  std::uint64_t pop(std::int64_t limit = kForever) {
    QueueEntry entry;
    if (!queue_.pop_until(limit, entry)) return 0;
    queue_.advance_to(entry.time);
    return entry.serial();
  }
  std::vector<std::uint64_t> pop_all() {
    std::vector<std::uint64_t> serials;
    while (const std::uint64_t serial = pop()) serials.push_back(serial);
    return serials;
  }

  EventQueue queue_;
  EventRecordPool pool_;
  std::uint64_t last_serial_ = 0;
  std::vector<EventRecord*> records_;  // [serial - 1]
};

TEST_F(EventQueueTest, EarlierTimeGoesFirstThenPriorityThenSerial) {
  push(20);                         // 1
  push(10, Priority::observation);  // 2
  push(10);                         // 3
  push(10, Priority::completion);   // 4
  push(10);                         // 5
  EXPECT_EQ(pop_all(), (std::vector<std::uint64_t>{4, 3, 5, 2, 1}));
}

TEST_F(EventQueueTest, EventsOfThePresentFollowTheSameOrderAsThoseScheduledBefore) {
  push(10);                         // 1, becomes the present
  push(10);                         // 2, in the heap
  push(10, Priority::observation);  // 3, in the heap
  EXPECT_EQ(pop(), 1U);
  push(10, Priority::observation);  // 4, in a ring: after 3, which was scheduled earlier
  push(10);                         // 5: after 2, before 3
  push(10, Priority::completion);   // 6: before everything left
  EXPECT_EQ(pop_all(), (std::vector<std::uint64_t>{6, 2, 5, 3, 4}));
}

TEST_F(EventQueueTest, LimitIsInclusive) {
  push(10);
  EXPECT_EQ(pop(9), 0U);
  EXPECT_EQ(pop(10), 1U);
  push(10);  // of the present, hence in a ring
  EXPECT_EQ(pop(9), 0U);
  EXPECT_EQ(pop(10), 2U);
  EXPECT_TRUE(queue_.empty());
}

TEST_F(EventQueueTest, SizeCountsHeapAndRingsThroughEveryStep) {
  EXPECT_TRUE(queue_.empty());
  push(0);  // ring
  push(5);  // heap
  EXPECT_EQ(queue_.size(), 2U);
  EXPECT_EQ(pop(), 1U);
  EXPECT_EQ(queue_.size(), 1U);
  EXPECT_EQ(pop(), 2U);  // leaves the root open
  EXPECT_EQ(queue_.size(), 0U);
  EXPECT_TRUE(queue_.empty());
  push(7);  // fills the open root
  EXPECT_EQ(queue_.size(), 1U);
  EXPECT_EQ(pop(), 3U);
}

TEST_F(EventQueueTest, RandomPushesAndPopsComeOutLikeFromAnOrderedSet) {
  // The standard library's ordered set of (time, priority, serial) is the reference.
  std::set<std::tuple<std::int64_t, int, std::uint64_t>> reference;
  RandomStream random(1, "event_queue_test");
  for (int step = 0; step < 200'000; ++step) {
    // Grows to some thousand entries, then shrinks; every third push is for the present instant.
    const bool grows = random.below(100) < (step < 100'000 ? 55U : 45U);
    if (grows || reference.empty()) {
      const auto ahead = static_cast<std::int64_t>(random.below(3) == 0 ? 0 : random.below(1000));
      const auto priority = static_cast<Priority>(random.below(kNumPriorities));
      push(queue_.now() + ahead, priority);
      reference.emplace(queue_.now() + ahead, static_cast<int>(priority), last_serial_);
    } else {
      const auto first = *reference.begin();
      reference.erase(reference.begin());
      ASSERT_EQ(pop(), std::get<2>(first)) << "at step " << step;
      ASSERT_EQ(queue_.now(), std::get<0>(first)) << "at step " << step;
    }
    ASSERT_EQ(queue_.size(), reference.size());
  }
}

TEST_F(EventQueueTest, RemovingTheCancelledKeepsTheOrderOfTheRest) {
  RandomStream random(2, "event_queue_test");
  std::set<std::tuple<std::int64_t, std::uint64_t>> reference;
  for (int i = 0; i < 1000; ++i) {
    const auto time = static_cast<std::int64_t>(random.below(50));  // time 0 is the present: a ring
    push(time);
    if (random.below(4) == 0) {
      reference.emplace(time, last_serial_);
    } else {
      records_.back()->serial = 0;  // cancelled
    }
  }
  queue_.remove_cancelled(pool_);
  EXPECT_EQ(queue_.size(), reference.size());
  for (const auto& [time, serial] : reference) ASSERT_EQ(pop(), serial);
  EXPECT_TRUE(queue_.empty());
}

TEST(EventRecord, LargeAndSmallCallablesAreCalledAndDestroyedOnce) {
  // 1 byte lies in the record, 200 bytes in a box; the shared count shows that neither copy stays behind.
  const auto alive = std::make_shared<int>(0);
  EventRecord record;
  record.hold([alive] { ++*alive; });
  record.call();
  record.clear();
  EXPECT_FALSE(record.holds_callable());
  std::array<char, 200> ballast{};
  record.hold([alive, ballast] { *alive += 10 + ballast[199]; });
  record.call();
  EXPECT_EQ(*alive, 11);
  record.clear();
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(EventRecordPool, ReturnedRecordsAreHandedOutAgain) {
  EventRecordPool pool;
  std::set<EventRecord*> seen;
  for (int i = 0; i < 5000; ++i) {
    EventRecord* record = pool.take();
    seen.insert(record);
    pool.give_back(record);
  }
  EXPECT_EQ(seen.size(), 1U);
}

}  // namespace
}  // namespace kvtide::engine
