#pragma once
// The paged KV cache of an engine: blocks that are owned, free, or free and still remembered by what they hold.
//
// Rules of vLLM v1 (kv_cache_utils and block_pool of release 0.19.0): one list of free blocks is both allocator and LRU. A freed
// block goes to its tail and keeps its key; allocation takes from its head and forgets the key; a hit on a free block takes it out
// of the middle. Block 0 is the null block and never given out.

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace kvtide::serving {

/// Names what a full block holds, with all tokens before it; 0 is no key.
using BlockKey = std::uint64_t;
using BlockId = std::int32_t;

class BlockPool {
 public:
  /// @param num_blocks  the null block included, 2..2^31 - 1
  explicit BlockPool(std::int64_t num_blocks);

  [[nodiscard]] std::int64_t num_usable() const { return static_cast<std::int64_t>(blocks_.size()) - 2; }
  [[nodiscard]] std::int64_t num_free() const { return num_free_; }

  /// A block that holds the key, owned or free; -1 when there is none.
  [[nodiscard]] BlockId find(BlockKey key) const;
  [[nodiscard]] bool is_free(BlockId block) const { return blocks_[index(block)].owners == 0; }
  /// One owner more; a free block leaves the list.
  void share(BlockId block);
  /// The least recently freed block, with one owner and no key. @pre num_free() > 0
  [[nodiscard]] BlockId take();
  /// Remembers what the block holds from now on. Equal blocks are kept side by side.
  void set_key(BlockId block, BlockKey key);
  /// The same for what nobody but its owner can ask for: found by key(), not by find().
  void set_own_key(BlockId block, BlockKey key) { blocks_[index(block)].key = key; }
  /// What an owned or free block is known to hold; 0: nothing.
  [[nodiscard]] BlockKey key(BlockId block) const { return blocks_[index(block)].key; }
  /// One owner less; without any the block goes to the tail of the free list and keeps its key.
  void release(BlockId block);

 private:
  struct Block {
    BlockKey key = 0;
    std::int32_t owners = 0;
    BlockId previous = 0, next = 0;  // in the free list
    BlockId next_equal = -1;         // with the same key
    bool is_listed = false;          // in known_
  };
  [[nodiscard]] static std::size_t index(BlockId block) { return static_cast<std::size_t>(block); }
  void unlink(BlockId block);
  void forget(BlockId block);

  std::vector<Block> blocks_;  // [0]: null block; the last one: head and tail of the free list
  BlockId anchor_;
  std::int64_t num_free_ = 0;
  std::unordered_map<BlockKey, BlockId> known_;  // first of those with the key; looked up, never walked
};

}  // namespace kvtide::serving
