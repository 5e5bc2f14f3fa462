// LMCache: its YAML file.

#include <fmt/format.h>

#include "experiment/import/imported.h"
#include "experiment/import/stack_text.h"

namespace kvtide::experiment {
namespace {

bool recognises(const StackText& text) {
  return text.has({"remote_serde", "save_unfull_chunk", "max_local_cpu_size", "blend_recompute_ratios"}) ||
         (text.has({"chunk_size"}) && text.has({"local_cpu", "remote_url", "local_disk"}));
}

Imported read(const StackText& text) {
  Imported imported;
  imported.model = text.value({"model"}).value_or("");
  const std::int64_t chunk = text.integer({"chunk_size"}).value_or(256);
  imported.keeps.push_back(fmt::format(
      "chunk_size {}: the grid on which prefixes are stored and found again; a chunk is stored whole", chunk));
  for (const char* key :
       {"local_cpu", "max_local_cpu_size", "local_disk", "max_local_disk_size", "remote_url", "save_unfull_chunk"}) {
    if (text.value({key})) imported.keeps.push_back(fmt::format("{}: chunks are copied there and back unchanged", key));
  }
  const std::string serde = text.value({"remote_serde"}).value_or("naive");
  if (serde == "cachegen") {
    imported.loses.emplace_back(
        "remote_serde cachegen: what travels to the remote store is quantized and entropy coded; the cache on the GPU "
        "is "
        "not compressed, and this loss in transit is not carried over");
  } else {
    imported.keeps.push_back(fmt::format("remote_serde {}: bytes travel as they are", serde));
  }
  if (text.is_true({"enable_blending"})) {
    imported.loses.push_back(
        fmt::format("enable_blending: chunks are reused at other positions and only a share of {} is recomputed: "
                    "approximate, and not "
                    "carried over",
                    text.value({"blend_recompute_ratios"}).value_or("0.15")));
  }
  return imported;
}

}  // namespace

Stack lmcache_stack() {
  return {"lmcache", &recognises, &read};
}

}  // namespace kvtide::experiment
