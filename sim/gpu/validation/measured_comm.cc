#include "gpu/validation/measured_comm.h"

#include <optional>

#include "base/error.h"
#include "gpu/collective.h"

namespace kvtide::gpu {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;

std::optional<CollectiveKind> kind_of(const std::string& name) {
  if (name == "all_reduce") return CollectiveKind::all_reduce;
  if (name == "all_gather") return CollectiveKind::all_gather;
  if (name == "reduce_scatter") return CollectiveKind::reduce_scatter;
  if (name == "alltoall") return CollectiveKind::all_to_all;
  return std::nullopt;
}

}  // namespace

RowPrediction predict_comm(Gpu& gpu, const config::CsvTable& table, std::size_t row) {
  const std::string& dtype = table.text(row, "dtype");
  const std::int64_t element_bytes = dtype == "int8" || dtype == "fp8" ? 1 : dtype == "float" ? 4 : 2;
  const std::int64_t elements = table.integer(row, "message_size", 0, kMaxElements);
  const std::int64_t num_ranks = table.integer(row, "num_gpus", 1, 1 << 20);
  RowPrediction prediction{.bytes = static_cast<double>(elements * element_bytes), .microseconds = {}};
  const std::optional<CollectiveKind> kind = kind_of(table.text(row, "op_name"));
  if (!kind) return prediction;
  CollectiveWork work{.kind = *kind,
                      .num_ranks = num_ranks,
                      .bytes = static_cast<Bytes>(elements * element_bytes),
                      .is_floating = dtype != "int8",
                      .library = table.text(row, "lib"),
                      .has_graph = table.text(row, "kernel") != "vLLM_custom_eager"};
  // oneCCL counts what each rank contributes to an all-gather, NCCL's rows what it gathers.
  if (work.library == "oneccl" && *kind == CollectiveKind::all_gather) work.bytes *= static_cast<Bytes>(num_ranks);
  try {
    prediction.microseconds = to_microseconds(time_collective(gpu.profile(), work).duration);
  } catch (const InputError&) {
    // More ranks than the interconnect joins, or another library: counted as refused.
  }
  return prediction;
}

}  // namespace kvtide::gpu
