#pragma once
// What every preset costs on one served model, from the same cache state and kernel work that `kvtide run` uses: bytes,
// arithmetic to compress a token once, arithmetic to read it in each decode step.
//
// Bytes depend on how many positions are kept, not on which, so eviction presets are counted with made-up scores.

#include <string>
#include <vector>

#include "base/units.h"
#include "experiment/preset/preset.h"

namespace kvtide::experiment {

struct CatalogueEntry {
  const Preset* preset = nullptr;
  std::string composition;             ///< `compression:` with every key written out
  double bytes_per_token = 0;          ///< over all layers, metadata and page rounding included
  double full_bytes_per_token = 0;     ///< fp16
  double compress_flop_per_token = 0;  ///< CUDA-core operations, once
  double converted_per_token = 0;      ///< elements turned back into fp16 in each decode step, int4's work being 1
  double rebuild_macs_per_token = 0;   ///< low rank: multiply-adds in each decode step
};

/// @param model  a name of models/ or a path  @throws InputError for a preset that this model's heads cannot hold
[[nodiscard]] CatalogueEntry catalogue_entry(const Preset& preset, const std::string& model,
                                             std::int64_t context_tokens);

/// The table of docs/catalogue.md: every preset on Llama-3.1-8B at 32,768 tokens, as GitHub Markdown.
[[nodiscard]] std::string catalogue_markdown();

}  // namespace kvtide::experiment
