#pragma once
// Heads with known answers for the tests of this room.

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "kv/head_cache.h"
#include "kv/head_tensors.h"

namespace kvtide::loss {

/// Queries all sit behind the last position, so that each sees every key.
inline kv::HeadTensors empty_head(std::int64_t positions, std::int64_t queries, std::int64_t head_dim) {
  kv::HeadTensors head;
  head.k_post = kv::RowMatrix::Zero(positions, head_dim);
  head.v = kv::RowMatrix::Zero(positions, head_dim);
  head.q_post = kv::RowMatrix::Zero(queries, head_dim);
  for (std::int64_t i = 0; i < queries; ++i) head.q_positions.push_back(positions + i);
  head.attention_scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
  return head;
}

inline void fill_normal(kv::RowMatrix& matrix, RandomStream& random) {
  for (std::int64_t i = 0; i < matrix.size(); ++i) matrix.data()[i] = static_cast<float>(random.normal());
}

/// Zero queries: every key gets 1 / positions. Values are standard normal.
inline kv::HeadTensors uniform_head(std::int64_t positions, std::int64_t head_dim, std::uint64_t seed = 1) {
  kv::HeadTensors head = empty_head(positions, 1, head_dim);
  RandomStream random(seed, "test.uniform_head");
  fill_normal(head.v, random);
  return head;
}

/// Standard normal queries, keys and values: logits of unit variance.
inline kv::HeadTensors white_head(std::int64_t positions, std::int64_t queries, std::int64_t head_dim,
                                  std::uint64_t seed = 1) {
  kv::HeadTensors head = empty_head(positions, queries, head_dim);
  RandomStream random(seed, "test.white_head");
  fill_normal(head.q_post, random);
  fill_normal(head.k_post, random);
  fill_normal(head.v, random);
  return head;
}

/// Every position in an entry of its own, bitwise.
inline kv::HeadCache identity_cache(const kv::HeadTensors& head) {
  kv::HeadCache cache;
  cache.num_positions = head.num_positions();
  kv::EntryTable& table = cache.entries.emplace();
  table.k = head.k_post;
  table.v = head.v;
  table.bias.assign(static_cast<std::size_t>(head.num_positions()), 0.0F);
  for (std::int64_t j = 0; j < head.num_positions(); ++j) table.entry_of.push_back(static_cast<std::int32_t>(j));
  return cache;
}

inline kv::HeadCache evict(const kv::HeadTensors& head, const std::function<bool(std::int64_t)>& is_kept) {
  kv::HeadCache cache = identity_cache(head);
  for (std::int64_t j = 0; j < head.num_positions(); ++j) {
    if (!is_kept(j)) cache.entries->entry_of[static_cast<std::size_t>(j)] = -1;
  }
  return cache;
}

/// Positions [first, last) in means of `width` each, added to the logit: `bias`.
inline kv::HeadCache pool(const kv::HeadTensors& head, std::int64_t first, std::int64_t last, std::int64_t width,
                          float bias) {
  kv::HeadCache cache = identity_cache(head);
  kv::EntryTable& table = *cache.entries;
  for (std::int64_t begin = first; begin + width <= last; begin += width) {
    table.k.row(begin) = head.k_post.middleRows(begin, width).colwise().mean();
    table.v.row(begin) = head.v.middleRows(begin, width).colwise().mean();
    table.bias[static_cast<std::size_t>(begin)] = bias;
    for (std::int64_t j = begin; j < begin + width; ++j) {
      table.entry_of[static_cast<std::size_t>(j)] = static_cast<std::int32_t>(begin);
    }
  }
  return cache;
}

/// Keys and values rounded to `levels` steps between each row's least and greatest value.
inline kv::HeadCache round_rows(const kv::HeadTensors& head, std::int32_t levels) {
  kv::HeadCache cache = identity_cache(head);
  for (kv::RowMatrix* matrix : {&cache.entries->k, &cache.entries->v}) {
    for (std::int64_t row = 0; row < matrix->rows(); ++row) {
      const float low = matrix->row(row).minCoeff();
      const float step = (matrix->row(row).maxCoeff() - low) / static_cast<float>(levels - 1);
      if (!(step > 0)) continue;
      for (float& value : matrix->row(row)) value = low + step * std::round((value - low) / step);
    }
  }
  return cache;
}

}  // namespace kvtide::loss
