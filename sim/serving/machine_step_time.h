#pragma once
// Step times from the modeled machine: the graph of kernels of one model step, priced once per shape of its parts.
//
// On one stream a step is the sum of its kernels, and each kernel depends on little of the step's shape. So the parts are priced
// apart and kept:
//   dense    norms, projections, MLP or experts, all-reduces, hand-overs   by tokens of the step
//   compress what a policy compresses in the step, all layers              by tokens
//   head     LM head                                                       by rows
//   decode   attention of the decoding sequences, all layers               by sequences and mean length
//   mixed    attention of prompt chunks and decodes beside them            by the chunks, sequences and mean length
//   swap     caches copied to or from host memory before the step          by tokens; nothing runs beside it
// Decode-only steps replay a CUDA graph: their tokens are padded to a captured size (padded_batch()).
//
// Approximations: decoding sequences are as long as their mean (kernels read bytes; their sum is kept). Decode attention is priced
// at 8 lengths an octave and linear between: within 1 % of pricing every page count where the kernel's splits do not change. In a
// mixed step, chunks are rounded to an eighth and sequences and lengths to a quarter of an octave, up and down alike, for attention
// only. Beyond 256 tokens the dense part is that of the next multiple of 16, beyond 512 of 32: tiles of GEMMs are no finer.
//
// Example, Llama-3.1-8B on an H100, 4 decodes of 1,000 tokens: dense(4) + head(4) + decode(4, 1000), as time_iteration() gives.

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpu/iteration_model.h"
#include "serving/step_shape.h"

namespace kvtide::serving {

class MachineStepTime : public StepTime {
 public:
  struct Options {
    gpu::IterationModel::Options iteration;
    std::int64_t largest_capture = 512;  ///< tokens of the largest CUDA graph, >= 1
    /// What a policy's compression costs for each token it compresses, of one layer on one rank; reads and flops 0: it has none.
    struct Compression {
      double read_bytes = 0, write_bytes = 0;
      double flops = 0;  ///< on CUDA cores
      bool is_every_token =
          false;  ///< each new token in its own step (a cast); else in bursts: StepShape::compressed_tokens
      double thread_blocks = 1;     ///< that share the work of a token
      Bytes chunk_bytes = 4096;     ///< contiguous run of what is read
      std::int64_t num_layers = 0;  ///< that are compressed; 0: all
    } compression{};
    /// Before attention, the whole cache of the decoding sequences is converted back to 16 bits by a kernel of its own: bytes read
    /// and written for each cached token, of one layer on one rank, and its arithmetic. Reads 0: attention converts, if anybody.
    struct Conversion {
      double read_bytes = 0, write_bytes = 0, flops = 0;
    } conversion{};
    double swap_bytes = 0;         ///< of a cached token on one rank, all layers: what goes to host memory and back
    Picoseconds between_steps{0};  ///< the device idles while the host prepares the next step; 0: hidden
  };
  /// @param gpu  outlives this object  @throws InputError
  MachineStepTime(gpu::Gpu& gpu, Options options);

  [[nodiscard]] Picoseconds duration(const StepShape& shape) override;
  [[nodiscard]] Picoseconds decode_run(std::int64_t num_decodes, std::int64_t kv_tokens, std::int64_t steps) override;

  /// Parts priced so far: what the memory of this object grows with.
  [[nodiscard]] std::size_t num_priced() const;

 private:
  [[nodiscard]] double dense(std::int64_t num_tokens);
  [[nodiscard]] double head(std::int64_t num_rows);
  [[nodiscard]] double decode(std::int64_t num_decodes, double mean_length);
  [[nodiscard]] double knot(std::int64_t num_decodes, std::size_t index);
  [[nodiscard]] double mixed(const StepShape& shape);
  [[nodiscard]] double compress(std::int64_t num_tokens);
  [[nodiscard]] double swap(std::int64_t num_tokens) const;
  [[nodiscard]] double convert(double num_tokens);
  [[nodiscard]] double fixed_decode_part(std::int64_t num_decodes);

  gpu::Gpu& gpu_;
  gpu::IterationModel model_;
  Options options_;
  std::unordered_map<std::int64_t, double> compress_;  // likewise
  std::vector<double> dense_, head_;                   // [tokens], [rows], NaN where not priced yet
  std::vector<std::vector<double>> decode_;            // [decodes][knot], likewise
  std::unordered_map<std::uint64_t, double> mixed_;    // by hash of the rounded shape; looked up, never walked
};

}  // namespace kvtide::serving
