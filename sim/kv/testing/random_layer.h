#pragma once
// A layer of Gaussian keys and values for tests, with the exact rotation of its keys.

#include "base/random.h"
#include "kv/head_tensors.h"

namespace kvtide::kv::testing {

/// fp16-representable N(0,1) entries, one query a position when `with_queries`, group_size 1.
inline LayerTensors random_layer(std::int64_t num_heads, std::int64_t num_positions, std::int64_t head_dim,
                                 std::uint64_t seed, double rope_theta = 10000, bool with_queries = false) {
  LayerTensors layer;
  for (std::int64_t head_index = 0; head_index < num_heads; ++head_index) {
    RandomStream stream(seed + static_cast<std::uint64_t>(head_index), "random_layer");
    const auto draw = [&] {
      RowMatrix rows(num_positions, head_dim);
      for (std::int64_t element = 0; element < rows.size(); ++element) {
        rows.data()[element] = static_cast<float>(static_cast<Eigen::half>(static_cast<float>(stream.normal())));
      }
      return rows;
    };
    HeadTensors head;
    head.k_pre = draw();
    head.v = draw();
    head.rope = Rope{rope_theta};
    head.k_post = head.k_pre;
    for (std::int64_t position = 0; position < num_positions; ++position) {
      head.rope.rotate({head.k_post.row(position).data(), static_cast<std::size_t>(head_dim)},
                       static_cast<double>(position));
    }
    head.attention_scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
    if (with_queries) {
      head.q_post = draw();
      for (std::int64_t position = 0; position < num_positions; ++position) head.q_positions.push_back(position);
    } else {
      head.q_post.resize(0, head_dim);
    }
    layer.push_back(std::move(head));
  }
  return layer;
}

}  // namespace kvtide::kv::testing
