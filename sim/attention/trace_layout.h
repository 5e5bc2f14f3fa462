#pragma once
// Where in an HDF5 file the tensors of a trace lie, found and validated without reading one.

#include <cstdint>
#include <string>
#include <vector>

#include "attention/trace.h"
#include "hdf5/hdf5_file.h"

namespace kvtide::attention {

/// A dataset [head, row, channel] that holds some consecutive rows of a tensor.
struct TensorPart {
  bool is_in_companion = false;
  std::string dataset;
  std::int64_t num_rows = 0;
};

struct LayerLayout {
  std::vector<TensorPart> k_pre;  ///< their rows together: every token
  std::vector<TensorPart> v;
  std::vector<TensorPart> q_pre;  ///< their rows together: every recorded query
  std::vector<std::int64_t> q_positions;
  TensorPart w_o;  ///< [hidden, query_head * head_dim]; no name when absent
};

struct TraceLayout {
  TraceInfo info;
  std::vector<LayerLayout> layers;
  std::vector<std::int64_t> token_ids;
  std::vector<std::string> token_strings;
  std::vector<Probe> probes;
};

/// Reads attributes, shapes, tokens and probes. Whatever is wrong is appended to `findings`, with its path; when it
/// stays empty, the layout can be used. @param companion  null when there is none
[[nodiscard]] TraceLayout inspect_layout(const hdf5::InputFile& file, const hdf5::InputFile* companion,
                                         std::vector<std::string>& findings);

}  // namespace kvtide::attention
