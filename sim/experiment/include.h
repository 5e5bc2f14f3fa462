#pragma once
// `include: base.yaml` (or a list of files): an experiment built on others.
//
//   # base.yaml                      # mine.yaml
//   model: llama-3.1-8b              include: base.yaml
//   gpu: h100-sxm                    name: mine
//   loss: {span: 8, heads: mean}     loss: {heads: reader}      ->  loss: {heads: reader, span: 8}
//
// What the including file says wins; of several included files the later one. Mappings are merged key by key, lists
// and values replaced. An included file may include others; its own name is relative to the file that includes it.
// Paths *inside* (trace, model, gpu) stay relative to the file that is run: an included file has no place of its own.

#include <string>

#include "config/yaml_value.h"

namespace kvtide::experiment {

/// Included files inside included files; more is taken for a mistake.
inline constexpr int kMaxIncludeDepth = 16;
/// Files of one experiment, counted each time one is included.
inline constexpr int kMaxIncludedFiles = 64;

/// Merges the files that `document` includes into it; `include` itself stays and is marked as known.
/// @param folder  where the names of included files start
/// @return the included texts, each under a line "# included: NAME", in the order of reading; empty when there are none
/// @throws InputError naming the place of the include when a file is missing, damaged or includes itself
[[nodiscard]] std::string resolve_includes(config::Document& document, const std::string& folder);

}  // namespace kvtide::experiment
