#include "attention/trace_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/error.h"

namespace kvtide::attention {
namespace {

using hdf5::DatasetInfo;
using hdf5::ElementType;
using hdf5::InputFile;

constexpr const char* kOwnFormat = "kvtide-trace-1";
constexpr const char* kResearchFormat = "kvtide-trace-research-1";
constexpr std::int64_t kMaxProbes = 4096;
constexpr std::int64_t kMaxHidden = 1 << 17;

bool holds_numbers(ElementType type) {
  return type == ElementType::float16 || type == ElementType::bfloat16_bits || type == ElementType::float32 ||
         type == ElementType::uint16;
}

class Inspector {
 public:
  Inspector(const InputFile& file, const InputFile* companion, std::vector<std::string>& findings)
      : file_(file), companion_(companion), findings_(findings) {}

  TraceLayout inspect() {
    read_format();
    if (!findings_.empty()) return layout_;
    read_dimensions();
    if (!findings_.empty()) return layout_;  // every shape below is judged by these
    for (const std::int64_t layer : layout_.info.layers) {
      layout_.layers.emplace_back();
      is_research_ ? find_research_layer(layer, layout_.layers.back()) : find_own_layer(layer, layout_.layers.back());
    }
    read_tokens();
    read_probes();
    return layout_;
  }

 private:
  void add(const std::string& object, const std::string& what) {
    findings_.push_back(fmt::format("{}: {}: {}", file_.path(), object, what));
  }

  /// Runs one reading step; an error becomes a finding. @return whether it went well
  template <class Step>
  bool attempt(const Step& step) {
    try {
      step();
      return true;
    } catch (const InputError& error) {
      findings_.emplace_back(error.what());
      return false;
    }
  }

  /// `value` stays as it is where the number found is not allowed.
  void read_integer(const char* name, std::int64_t low, std::int64_t high, std::int64_t& value) {
    attempt([&] {
      const std::int64_t found = file_.integer_attribute("/", name);
      if (found < low || found > high)
        return add(fmt::format("/@{}", name), fmt::format("expected {}..{}, found {}", low, high, found));
      value = found;
    });
  }

  void read_range(const char* name, QueryRange& range) {
    attempt([&] {
      const std::vector<std::int64_t> ends = file_.integers_attribute("/", name);
      if (ends.size() != 2) return add(fmt::format("/@{}", name), "expected two positions, first and last");
      range = {ends[0], ends[1]};
    });
  }

  void read_format() {
    attempt([&] {
      layout_.info.origin = file_.path();
      std::string& format = layout_.info.format;
      format = file_.string_attribute("/", "format");
      is_research_ = format == kResearchFormat;
      if (!is_research_ && format != kOwnFormat)
        add("/@format",
            fmt::format("expected {} or {}, found \"{}\"", kOwnFormat, kResearchFormat, format.substr(0, 40)));
    });
  }

  void read_dimensions() {
    TraceInfo& info = layout_.info;
    attempt([&] { info.model = file_.string_attribute("/", "model"); });
    read_integer("n_layers_model", 1, kMaxTraceLayers, info.num_model_layers);
    read_integer("n_q_heads", 1, kMaxTraceHeads, info.num_query_heads);
    read_integer("n_kv_heads", 1, kMaxTraceHeads, info.num_kv_heads);
    read_integer("head_dim", 2, kMaxTraceHeadDim, info.head_dim);
    read_integer("n_tokens", 1, kMaxTraceTokens, info.num_tokens);
    read_integer("n_context", 1, kMaxTraceTokens, info.num_context);
    attempt([&] {
      info.rope_theta = file_.number_attribute("/", "rope_theta");
      check_rope_theta("/@rope_theta", info.rope_theta);
    });
    attempt([&] {
      info.attention_scale = file_.number_attribute("/", "attn_scale");
      if (!std::isfinite(info.attention_scale) || info.attention_scale <= 0)
        add("/@attn_scale", fmt::format("expected a number above 0, found {}", info.attention_scale));
    });
    num_decode_ = 0;
    if (is_research_) read_integer("n_decode", 0, kMaxTraceTokens, num_decode_);
    read_layers();
    if (!findings_.empty()) return;
    read_layer_rope_thetas();

    if (info.num_query_heads % info.num_kv_heads != 0)
      add("/@n_q_heads",
          fmt::format("{} query heads do not divide among {} KV heads", info.num_query_heads, info.num_kv_heads));
    const bool turns =
        info.rope_theta != 0 || std::ranges::any_of(info.layer_rope_thetas, [](double t) { return t != 0; });
    if (info.head_dim % 2 != 0 && turns)
      add("/@head_dim", fmt::format("RoPE turns pairs of channels: expected an even number, found {}", info.head_dim));
    info.num_tokens += num_decode_;
    if (info.num_tokens > kMaxTraceTokens)
      add("/@n_decode", fmt::format("{} tokens in all, at most {} are allowed", info.num_tokens, kMaxTraceTokens));
    if (info.num_context > info.num_tokens)
      add("/@n_context", fmt::format("{} context tokens of {}", info.num_context, info.num_tokens));
    read_question();
  }

  void read_layers() {
    if (layout_.info.num_model_layers == 0) return;  // not known how many may be named
    attempt([&] {
      std::vector<std::int64_t>& layers = layout_.info.layers;
      if (file_.info("/layers").num_elements() > static_cast<std::uint64_t>(kMaxTraceLayers))
        return add("/layers", fmt::format("at most {} layers are allowed", kMaxTraceLayers));
      layers = file_.read_integers("/layers");
      if (layers.empty()) add("/layers", "no layer is recorded");
      for (std::size_t i = 0; i < layers.size(); ++i)
        if (layers[i] < 0 || layers[i] >= layout_.info.num_model_layers || (i > 0 && layers[i] <= layers[i - 1]))
          return add("/layers", fmt::format("expected ascending layers in 0..{}, found {} at index {}",
                                            layout_.info.num_model_layers - 1, layers[i], i));
    });
  }

  void check_rope_theta(const std::string& where, double theta) {
    if (!std::isfinite(theta) || theta < 0 || (theta > 0 && theta < 1))
      add(where, fmt::format("expected 0 (no rotation) or a number from 1, found {}", theta));
  }

  void read_layer_rope_thetas() {
    const std::string where = "/layer_rope_theta";
    if (!file_.exists(where)) return;
    attempt([&] {
      std::vector<double>& thetas = layout_.info.layer_rope_thetas;
      const std::size_t num_layers = layout_.info.layers.size();
      if (const std::uint64_t found = file_.info(where).num_elements(); found != num_layers)
        return add(where, fmt::format("expected one number for each of {} layers, found {}", num_layers, found));
      thetas = file_.read_doubles(where);
      for (const double theta : thetas) check_rope_theta(where, theta);
    });
  }

  void read_question() {
    TraceInfo& info = layout_.info;
    if (is_research_) {
      // Question tokens follow the context; answer token i is predicted one position before its own.
      const std::int64_t num_prompt = info.num_tokens - num_decode_;
      info.question = {std::min(info.num_context, num_prompt - 1), num_prompt - 1};
      info.answer = {num_prompt - 1, num_prompt - 1 + std::max<std::int64_t>(num_decode_ - 1, 0)};
    } else {
      read_range("question", info.question);
      read_range("answer", info.answer);
    }
    for (const auto& [name, range] : {std::pair{"/@question", info.question}, std::pair{"/@answer", info.answer}})
      if (range.first < 0 || range.last < range.first || range.last >= info.num_tokens)
        add(name,
            fmt::format("expected first <= last in 0..{}, found {}..{}", info.num_tokens - 1, range.first, range.last));
  }

  /// Appends a part of a tensor when its shape and type are right. @param num_rows  rows expected, or any when absent
  void append_part(const std::string& dataset, bool in_companion, std::int64_t num_heads,
                   std::optional<std::int64_t> num_rows, std::vector<TensorPart>& parts) {
    const InputFile& file = in_companion ? *companion_ : file_;
    attempt([&] {
      const DatasetInfo info = file.info(dataset);
      const auto is = [&](std::size_t i, std::int64_t wanted) {
        return info.shape[i] == static_cast<std::uint64_t>(wanted);
      };
      if (!holds_numbers(info.type))
        throw InputError(
            fmt::format("{}: {}: expected float16, bfloat16 (as uint16) or float32", file.path(), dataset));
      const std::uint64_t most_rows = static_cast<std::uint64_t>(layout_.info.num_tokens);
      if (info.shape.size() != 3 || !is(0, num_heads) || !is(2, layout_.info.head_dim) ||
          (num_rows ? !is(1, *num_rows) : info.shape[1] > most_rows))
        throw InputError(fmt::format("{}: {}: expected shape [{}, {}, {}], found [{}]", file.path(), dataset, num_heads,
                                     num_rows ? fmt::format("{}", *num_rows) : fmt::format("up to {}", most_rows),
                                     layout_.info.head_dim, fmt::join(info.shape, ", ")));
      parts.push_back({in_companion, dataset, static_cast<std::int64_t>(info.shape[1])});
    });
  }

  void find_output_projection(const std::string& dataset, bool in_companion, TensorPart& part) {
    const InputFile& file = in_companion ? *companion_ : file_;
    if (!file.exists(dataset)) return;
    attempt([&] {
      const DatasetInfo info = file.info(dataset);
      const auto columns = static_cast<std::uint64_t>(layout_.info.num_query_heads * layout_.info.head_dim);
      if (!holds_numbers(info.type) || info.shape.size() != 2 || info.shape[0] == 0 ||
          info.shape[0] > static_cast<std::uint64_t>(kMaxHidden) || info.shape[1] != columns)
        throw InputError(fmt::format("{}: {}: expected numbers of shape [1..{}, {}], found [{}]", file.path(), dataset,
                                     kMaxHidden, columns, fmt::join(info.shape, ", ")));
      part = {in_companion, dataset, static_cast<std::int64_t>(info.shape[0])};
    });
  }

  void find_own_layer(std::int64_t layer, LayerLayout& found) {
    const TraceInfo& info = layout_.info;
    const std::string group = fmt::format("/layer_{:02}", layer);
    append_part(group + "/k_pre", false, info.num_kv_heads, info.num_tokens, found.k_pre);
    append_part(group + "/v", false, info.num_kv_heads, info.num_tokens, found.v);
    const std::string positions = group + "/q_positions";
    attempt([&] {
      const std::uint64_t count = file_.info(positions).num_elements();
      if (count == 0 || count > static_cast<std::uint64_t>(info.num_tokens))
        return add(positions, fmt::format("expected 1..{} queries, found {}", info.num_tokens, count));
      found.q_positions = file_.read_integers(positions);
      for (std::size_t i = 0; i < found.q_positions.size(); ++i) {
        const std::int64_t position = found.q_positions[i];
        if (position < 0 || position >= info.num_tokens || (i > 0 && position <= found.q_positions[i - 1]))
          return add(positions, fmt::format("expected ascending positions in 0..{}, found {} at index {}",
                                            info.num_tokens - 1, position, i));
      }
    });
    append_part(group + "/q_pre", false, info.num_query_heads, static_cast<std::int64_t>(found.q_positions.size()),
                found.q_pre);
    find_output_projection(group + "/w_o", false, found.w_o);
  }

  void find_research_layer(std::int64_t layer, LayerLayout& found) {
    const TraceInfo& info = layout_.info;
    const std::string group = fmt::format("/layer_{:02}", layer);
    const std::string decode = "/decode" + group;
    const std::int64_t num_prompt = info.num_tokens - num_decode_;
    for (const auto& [name, parts] : {std::pair{"/k_pre", &found.k_pre}, std::pair{"/v", &found.v}}) {
      append_part(group + name, false, info.num_kv_heads, num_prompt, *parts);
      if (num_decode_ > 0) append_part(decode + name, false, info.num_kv_heads, num_decode_, *parts);
    }
    const std::string all = group + "/q_pre_all";
    const bool is_in_companion = !file_.exists(all) && companion_ != nullptr && companion_->exists(all);
    if (is_in_companion || file_.exists(all)) {
      append_part(all, is_in_companion, info.num_query_heads, num_prompt, found.q_pre);
    } else {
      append_part(group + "/q_pre_last256", false, info.num_query_heads, std::min<std::int64_t>(256, num_prompt),
                  found.q_pre);
    }
    if (num_decode_ > 0) append_part(decode + "/q_pre", false, info.num_query_heads, num_decode_, found.q_pre);
    const std::int64_t num_queries =
        std::accumulate(found.q_pre.begin(), found.q_pre.end(), std::int64_t{0},
                        [](std::int64_t sum, const TensorPart& part) { return sum + part.num_rows; });
    // Both parts end where the tokens end.
    found.q_positions.resize(static_cast<std::size_t>(num_queries));
    std::iota(found.q_positions.begin(), found.q_positions.end(), info.num_tokens - num_queries);
    const bool projection_in_companion = companion_ != nullptr && companion_->exists(group + "/w_o");
    find_output_projection(group + "/w_o", projection_in_companion, found.w_o);
  }

  template <class T>
  void check_count(const std::string& object, const std::vector<T>& values, std::int64_t wanted) {
    if (static_cast<std::int64_t>(values.size()) != wanted)
      add(object, fmt::format("expected {} values, found {}", wanted, values.size()));
  }

  void read_tokens() {
    const std::int64_t num_prompt = layout_.info.num_tokens - num_decode_;
    if (file_.exists("/tokens/ids"))
      attempt([&] {
        layout_.token_ids = file_.read_integers("/tokens/ids");
        check_count("/tokens/ids", layout_.token_ids, num_prompt);
        if (num_decode_ == 0) return;
        const std::vector<std::int64_t> decoded = file_.read_integers("/decode/ids");
        check_count("/decode/ids", decoded, num_decode_);
        layout_.token_ids.insert(layout_.token_ids.end(), decoded.begin(), decoded.end());
      });
    if (file_.exists("/tokens/strings"))
      attempt([&] {
        layout_.token_strings = file_.read_strings("/tokens/strings");
        check_count("/tokens/strings", layout_.token_strings, num_prompt);
        if (num_decode_ == 0) return;
        // The research layout stores no strings of the answer; its tokens are single digits.
        std::string answer;
        if (file_.has_attribute("/probes", "answer")) answer = file_.string_attribute("/probes", "answer");
        for (std::int64_t i = 0; i < num_decode_; ++i)
          layout_.token_strings.push_back(static_cast<std::int64_t>(answer.size()) == num_decode_
                                              ? answer.substr(static_cast<std::size_t>(i), 1)
                                              : std::string());
      });
  }

  void read_probes() {
    if (!file_.exists("/probes/start")) return;
    const std::size_t num_findings = findings_.size();
    attempt([&] {
      const std::uint64_t count = file_.info("/probes/start").num_elements();
      if (count > static_cast<std::uint64_t>(kMaxProbes))
        return add("/probes/start", fmt::format("at most {} probes are allowed, found {}", kMaxProbes, count));
      const auto num_probes = static_cast<std::int64_t>(count);
      const std::vector<std::int64_t> starts = file_.read_integers("/probes/start");
      const std::vector<std::int64_t> lengths = file_.read_integers("/probes/length");
      check_count("/probes/length", lengths, num_probes);
      std::vector<std::string> nouns, codes;
      if (file_.exists("/probes/noun"))
        check_count("/probes/noun", nouns = file_.read_strings("/probes/noun"), num_probes);
      if (file_.exists("/probes/code"))
        check_count("/probes/code", codes = file_.read_strings("/probes/code"), num_probes);
      const DatasetInfo digits_info = file_.info("/probes/digit_positions");
      if (digits_info.shape.size() != 2 || digits_info.shape[0] != count ||
          digits_info.shape[1] > static_cast<std::uint64_t>(kMaxProbes))
        return add("/probes/digit_positions", fmt::format("expected shape [{}, digits], found [{}]", num_probes,
                                                          fmt::join(digits_info.shape, ", ")));
      const std::vector<std::int64_t> digits = file_.read_integers("/probes/digit_positions");
      std::int64_t asked = -1;
      if (file_.has_attribute("/probes", "asked")) asked = file_.integer_attribute("/probes", "asked");
      if (asked < -1 || asked >= num_probes)
        add("/probes@asked", fmt::format("expected a probe in 0..{}, found {}", num_probes - 1, asked));
      if (findings_.size() > num_findings) return;
      for (std::size_t i = 0; i < count; ++i) {
        Probe probe;
        if (!nouns.empty()) probe.noun = nouns[i];
        if (!codes.empty()) probe.code = codes[i];
        probe.start = starts[i];
        probe.length = lengths[i];
        const auto row = digits.begin() + static_cast<std::ptrdiff_t>(i * digits_info.shape[1]);
        probe.digit_positions.assign(row, row + static_cast<std::ptrdiff_t>(digits_info.shape[1]));
        probe.is_asked = static_cast<std::int64_t>(i) == asked;
        check_probe(static_cast<std::int64_t>(i), probe);
        layout_.probes.push_back(std::move(probe));
      }
    });
  }

  void check_probe(std::int64_t index, const Probe& probe) {
    const std::int64_t num_tokens = layout_.info.num_tokens;
    if (probe.start < 0 || probe.length < 1 || probe.start >= num_tokens || probe.length > num_tokens - probe.start)
      add("/probes/start", fmt::format("probe {} spans {} tokens from {}, outside the {} tokens", index, probe.length,
                                       probe.start, num_tokens));
    for (const std::int64_t position : probe.digit_positions)
      if (position < 0 || position >= num_tokens)
        return add("/probes/digit_positions",
                   fmt::format("probe {}: expected positions in 0..{}, found {}", index, num_tokens - 1, position));
  }

  const InputFile& file_;
  const InputFile* companion_;
  std::vector<std::string>& findings_;
  TraceLayout layout_;
  bool is_research_ = false;
  std::int64_t num_decode_ = 0;  ///< tokens of the research layout's decode/ group, appended to the prompt
};

}  // namespace

TraceLayout inspect_layout(const hdf5::InputFile& file, const hdf5::InputFile* companion,
                           std::vector<std::string>& findings) {
  return Inspector(file, companion, findings).inspect();
}

}  // namespace kvtide::attention
