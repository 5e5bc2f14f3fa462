#include "attention/trace_writer.h"

#include <fmt/format.h>

#include <span>
#include <vector>

#include "hdf5/hdf5_file.h"

namespace kvtide::attention {
namespace {

/// [head] of [row, channel] -> one array [head, row, channel].
std::vector<float> joined(const std::vector<kv::RowMatrix>& heads) {
  std::vector<float> values;
  for (const kv::RowMatrix& head : heads) values.insert(values.end(), head.data(), head.data() + head.size());
  return values;
}

void write_header(hdf5::OutputFile& file, const Trace& trace) {
  const TraceInfo& info = trace.info();
  file.attribute("/", "format", std::string("kvtide-trace-1"));
  file.attribute("/", "model", info.model);
  file.attribute("/", "n_layers_model", info.num_model_layers);
  file.attribute("/", "n_q_heads", info.num_query_heads);
  file.attribute("/", "n_kv_heads", info.num_kv_heads);
  file.attribute("/", "head_dim", info.head_dim);
  file.attribute("/", "rope_theta", info.rope_theta);
  file.attribute("/", "attn_scale", info.attention_scale);
  file.attribute("/", "n_tokens", info.num_tokens);
  file.attribute("/", "n_context", info.num_context);
  file.attribute("/", "question", std::vector<std::int64_t>{info.question.first, info.question.last});
  file.attribute("/", "answer", std::vector<std::int64_t>{info.answer.first, info.answer.last});
  file.dimension("/layers", info.layers, {"recorded model layers"});
  if (!info.layer_rope_thetas.empty())
    file.write("/layer_rope_theta", std::span<const double>(info.layer_rope_thetas), {"/layers"},
               {"RoPE base of each recorded layer"});
}

void write_tokens(hdf5::OutputFile& file, const Trace& trace) {
  if (trace.token_ids().empty() && trace.token_strings().empty()) return;
  std::vector<std::int64_t> positions(static_cast<std::size_t>(trace.info().num_tokens));
  for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int64_t>(i);
  file.dimension("/tokens/position", positions, {"token position", "token"});
  if (!trace.token_ids().empty())
    file.write("/tokens/ids", std::span(trace.token_ids()), {"/tokens/position"}, {"token ids"});
  if (!trace.token_strings().empty())
    file.write("/tokens/strings", std::span(trace.token_strings()), {"/tokens/position"}, {"decoded tokens"});
}

void write_probes(hdf5::OutputFile& file, const Trace& trace) {
  const std::vector<Probe>& probes = trace.probes();
  if (probes.empty()) return;
  const std::size_t num_digits = probes.front().digit_positions.size();
  std::vector<std::int64_t> index, starts, lengths, digits;
  std::vector<std::string> nouns, codes;
  std::int64_t asked = -1;
  for (const Probe& probe : probes) {
    if (probe.is_asked) asked = static_cast<std::int64_t>(index.size());
    index.push_back(static_cast<std::int64_t>(index.size()));
    starts.push_back(probe.start);
    lengths.push_back(probe.length);
    nouns.push_back(probe.noun);
    codes.push_back(probe.code);
    digits.insert(digits.end(), probe.digit_positions.begin(), probe.digit_positions.end());
  }
  std::vector<std::int64_t> digit_index(num_digits);
  for (std::size_t i = 0; i < num_digits; ++i) digit_index[i] = static_cast<std::int64_t>(i);
  file.dimension("/probes/probe", index, {"probe"});
  file.dimension("/probes/digit", digit_index, {"digit of the code"});
  file.attribute("/probes", "asked", asked);
  file.write("/probes/start", std::span<const std::int64_t>(starts), {"/probes/probe"}, {"first token", "token"});
  file.write("/probes/length", std::span<const std::int64_t>(lengths), {"/probes/probe"}, {"tokens", "token"});
  file.write("/probes/noun", std::span<const std::string>(nouns), {"/probes/probe"}, {"noun"});
  file.write("/probes/code", std::span<const std::string>(codes), {"/probes/probe"}, {"code"});
  file.write("/probes/digit_positions", std::span<const std::int64_t>(digits), {"/probes/probe", "/probes/digit"},
             {"tokens of the code", "token"});
}

}  // namespace

void write_trace(const std::string& path, const Trace& trace) {
  const TraceInfo& info = trace.info();
  hdf5::OutputFile file(path);
  write_header(file, trace);
  write_tokens(file, trace);
  write_probes(file, trace);
  const auto num_tokens = static_cast<std::uint64_t>(info.num_tokens);
  const auto head_dim = static_cast<std::uint64_t>(info.head_dim);
  const auto num_kv_heads = static_cast<std::uint64_t>(info.num_kv_heads);
  const auto num_query_heads = static_cast<std::uint64_t>(info.num_query_heads);
  for (std::int64_t layer_index = 0; layer_index < info.num_layers(); ++layer_index) {
    const RecordedLayer layer = trace.load_recorded_layer(layer_index);
    const std::string group = fmt::format("/layer_{:02}", info.layers[static_cast<std::size_t>(layer_index)]);
    file.write_float16(group + "/k_pre", joined(layer.k_pre), {num_kv_heads, num_tokens, head_dim},
                       {"keys before RoPE [kv_head, token, channel]"});
    file.write_float16(group + "/v", joined(layer.v), {num_kv_heads, num_tokens, head_dim},
                       {"values [kv_head, token, channel]"});
    file.write_float16(group + "/q_pre", joined(layer.q_pre), {num_query_heads, layer.q_positions.size(), head_dim},
                       {"queries before RoPE [q_head, query, channel]"});
    file.dimension(group + "/q_positions", layer.q_positions, {"position of each query", "token"});
    const kv::RowMatrix w_o = trace.output_projection(layer_index);
    if (w_o.size() > 0)
      file.write_float16(group + "/w_o", {w_o.data(), static_cast<std::size_t>(w_o.size())},
                         {static_cast<std::uint64_t>(w_o.rows()), static_cast<std::uint64_t>(w_o.cols())},
                         {"output projection [hidden, q_head * channel]"});
  }
  file.commit();
}

}  // namespace kvtide::attention
