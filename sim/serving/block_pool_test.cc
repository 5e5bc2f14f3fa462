#include "serving/block_pool.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kvtide::serving {
namespace {

TEST(BlockPool, TheNullBlockIsNeverGivenOut) {
  BlockPool pool(4);
  EXPECT_EQ(pool.num_usable(), 3);
  EXPECT_EQ(pool.num_free(), 3);
  for (int i = 0; i < 3; ++i) EXPECT_GT(pool.take(), 0);
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_THROW(BlockPool(1), InputError);
  EXPECT_NO_THROW(BlockPool(2));
}

TEST(BlockPool, AFreedBlockIsFoundUntilItIsTakenAgain) {
  BlockPool pool(3);
  const BlockId first = pool.take();
  pool.set_key(first, 7);
  EXPECT_EQ(pool.find(7), first);
  pool.release(first);
  EXPECT_EQ(pool.find(7), first);  // free, and still known
  const BlockId second = pool.take();
  EXPECT_NE(second, first);  // the head of the list, not the one just freed
  EXPECT_EQ(pool.find(7), first);
  EXPECT_EQ(pool.take(), first);
  EXPECT_EQ(pool.find(7), -1);
}

TEST(BlockPool, BlocksAreTakenInTheOrderTheyWereFreed) {
  BlockPool pool(4);
  const BlockId a = pool.take(), b = pool.take(), c = pool.take();
  pool.release(b);
  pool.release(c);
  pool.release(a);
  EXPECT_EQ(pool.take(), b);
  EXPECT_EQ(pool.take(), c);
  EXPECT_EQ(pool.take(), a);
}

TEST(BlockPool, AHitOnAFreeBlockTakesItOutOfTheMiddle) {
  BlockPool pool(4);
  const BlockId a = pool.take(), b = pool.take(), c = pool.take();
  pool.set_key(b, 9);
  for (const BlockId block : {a, b, c}) pool.release(block);
  pool.share(pool.find(9));
  EXPECT_EQ(pool.num_free(), 2);
  EXPECT_FALSE(pool.is_free(b));
  EXPECT_EQ(pool.take(), a);
  EXPECT_EQ(pool.take(), c);
}

TEST(BlockPool, ASharedBlockIsFreeWhenItsLastOwnerLeaves) {
  BlockPool pool(2);
  const BlockId block = pool.take();
  pool.share(block);
  pool.release(block);
  EXPECT_EQ(pool.num_free(), 0);
  pool.release(block);
  EXPECT_EQ(pool.num_free(), 1);
}

TEST(BlockPool, EqualBlocksAreKeptSideBySide) {
  BlockPool pool(4);
  const BlockId a = pool.take(), b = pool.take(), c = pool.take();
  for (const BlockId block : {a, b, c}) pool.set_key(block, 5);
  for (const BlockId block : {a, b, c}) pool.release(block);
  for (int left = 3; left > 0; --left) {
    EXPECT_GE(pool.find(5), 0) << left;
    (void)pool.take();  // forgets one of them, first, middle or last
  }
  EXPECT_EQ(pool.find(5), -1);
}

}  // namespace
}  // namespace kvtide::serving
