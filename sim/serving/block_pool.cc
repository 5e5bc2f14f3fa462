#include "serving/block_pool.h"

#include <fmt/format.h>

#include "base/error.h"

namespace kvtide::serving {

BlockPool::BlockPool(std::int64_t num_blocks) : anchor_(static_cast<BlockId>(num_blocks)) {
  if (num_blocks < 2 || num_blocks >= (std::int64_t{1} << 31) - 1) {
    throw InputError(fmt::format("block pool: {} blocks: expected 2..2^31 - 2", num_blocks));
  }
  blocks_.resize(static_cast<std::size_t>(num_blocks) + 1);
  for (BlockId block = 1; block <= anchor_; ++block) {
    blocks_[index(block)].previous = block == 1 ? anchor_ : block - 1;
    blocks_[index(block)].next = block == anchor_ ? 1 : block + 1;
  }
  num_free_ = num_blocks - 1;
}

BlockId BlockPool::find(BlockKey key) const {
  const auto found = known_.find(key);
  return found == known_.end() ? -1 : found->second;
}

void BlockPool::unlink(BlockId block) {
  const Block& b = blocks_[index(block)];
  blocks_[index(b.previous)].next = b.next;
  blocks_[index(b.next)].previous = b.previous;
  --num_free_;
}

void BlockPool::share(BlockId block) {
  if (blocks_[index(block)].owners++ == 0) unlink(block);
}

BlockId BlockPool::take() {
  const BlockId block = blocks_[index(anchor_)].next;
  __builtin_prefetch(&blocks_[index(blocks_[index(block)].next)]);  // the next one taken
  share(block);
  forget(block);
  return block;
}

void BlockPool::forget(BlockId block) {
  Block& b = blocks_[index(block)];
  if (!b.is_listed) {
    b.key = 0;
    return;
  }
  const auto first = known_.find(b.key);
  if (first->second == block) {
    if (b.next_equal < 0) {
      known_.erase(first);
    } else {
      first->second = b.next_equal;
    }
  } else {
    BlockId other = first->second;
    while (blocks_[index(other)].next_equal != block) other = blocks_[index(other)].next_equal;
    blocks_[index(other)].next_equal = b.next_equal;
  }
  b.key = 0;
  b.next_equal = -1;
  b.is_listed = false;
}

void BlockPool::set_key(BlockId block, BlockKey key) {
  Block& b = blocks_[index(block)];
  b.key = key;
  b.next_equal = -1;
  b.is_listed = true;
  const auto [first, is_new] = known_.emplace(key, block);
  if (is_new) return;
  b.next_equal = blocks_[index(first->second)].next_equal;
  blocks_[index(first->second)].next_equal = block;
}

void BlockPool::release(BlockId block) {
  Block& b = blocks_[index(block)];
  if (--b.owners > 0) return;
  b.previous = blocks_[index(anchor_)].previous;
  b.next = anchor_;
  blocks_[index(b.previous)].next = block;
  blocks_[index(anchor_)].previous = block;
  ++num_free_;
}

}  // namespace kvtide::serving
