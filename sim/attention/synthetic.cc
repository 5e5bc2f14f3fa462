#include "attention/synthetic.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace kvtide::attention {
namespace {

using Kind = SyntheticSpec::Kind;

constexpr std::array<std::pair<Kind, std::string_view>, 5> kKinds{{{Kind::uniform, "uniform"},
                                                                   {Kind::needle, "needle"},
                                                                   {Kind::recency, "recency"},
                                                                   {Kind::ar1, "ar1"},
                                                                   {Kind::rope, "rope"}}};
/// Channels that carry logits in the kinds without RoPE; the others hold noise.
constexpr std::int64_t kLogitChannels = 3;

void require(bool is_allowed, const char* parameter, const std::string& found, const std::string& allowed) {
  if (!is_allowed) throw InputError(fmt::format("synthetic.{}: expected {}, got {}", parameter, allowed, found));
}

void require_between(const char* parameter, std::int64_t value, std::int64_t low, std::int64_t high) {
  require(value >= low && value <= high, parameter, fmt::format("{}", value), fmt::format("{}..{}", low, high));
}

void require_number(const char* parameter, double value, double low, double high) {
  require(value >= low && value <= high, parameter, fmt::format("{}", value), fmt::format("{}..{}", low, high));
}

std::int64_t needle_start(const SyntheticSpec& spec) {
  const std::int64_t num_context = spec.tokens - spec.question_tokens;
  return spec.needle_start >= 0 ? spec.needle_start : (num_context - spec.needle_length) / 2;
}

void validate(const SyntheticSpec& spec) {
  require_between("tokens", spec.tokens, 2, kMaxTraceTokens);
  require_between("layers", spec.layers, 1, kMaxTraceLayers);
  require_between("kv_heads", spec.kv_heads, 1, kMaxTraceHeads);
  require_between("query_heads", spec.query_heads, 1, kMaxTraceHeads);
  require(spec.query_heads % spec.kv_heads == 0, "query_heads", fmt::format("{}", spec.query_heads),
          fmt::format("a multiple of kv_heads ({})", spec.kv_heads));
  require_between("head_dim", spec.head_dim, 4, kMaxTraceHeadDim);
  require(spec.head_dim % 2 == 0, "head_dim", fmt::format("{}", spec.head_dim), "an even number");
  require_between("question_tokens", spec.question_tokens, 1, spec.tokens - 1);
  require_between("queries", spec.queries, spec.question_tokens, spec.tokens);
  require_number("strength", spec.strength, -100, 100);
  const std::int64_t num_context = spec.tokens - spec.question_tokens;
  if (spec.kind == Kind::needle) {
    require_between("needle_length", spec.needle_length, 1, num_context);
    require_between("needle_start", spec.needle_start, -1, num_context - spec.needle_length);
  }
  require_between("sinks", spec.sinks, 0, spec.tokens);
  require(spec.half_life > 0 && std::isfinite(spec.half_life), "half_life", fmt::format("{}", spec.half_life),
          "a number above 0");
  require(spec.correlation >= 0 && spec.correlation < 1, "correlation", fmt::format("{}", spec.correlation),
          "0 <= correlation < 1");
  require_number("deviation", spec.deviation, 0, 20);
  require_number("theta", spec.theta, 1, 1e12);
  require_between("pair", spec.pair, -1, spec.head_dim / 2 - 1);
}

std::string stream_name(const char* what, std::int64_t layer_index, std::int64_t kv_head) {
  return fmt::format("synthetic/{}/{}/{}", what, layer_index, kv_head);
}

/// The AR(1) importance of one head. @return [token]
std::vector<double> importance(const SyntheticSpec& spec, std::int64_t layer_index, std::int64_t kv_head) {
  RandomStream random(spec.seed, stream_name("importance", layer_index, kv_head));
  std::vector<double> values(static_cast<std::size_t>(spec.tokens));
  const double innovation = std::sqrt(1 - spec.correlation * spec.correlation) * spec.deviation;
  double value = spec.deviation * random.normal();
  for (double& x : values) {
    x = value;
    value = spec.correlation * value + innovation * random.normal();
  }
  return values;
}

void fill_with_noise(RandomStream random, Eigen::Ref<kv::RowMatrix> block) {
  for (std::int64_t row = 0; row < block.rows(); ++row)
    for (std::int64_t column = 0; column < block.cols(); ++column)
      block(row, column) = static_cast<float>(random.normal());
}

/// Writes `value` into two channels so that their sum survives float16: the second holds what rounding takes from the
/// first.
void put_precisely(double value, float& coarse, float& fine) {
  const auto rounded = static_cast<float>(static_cast<Eigen::half>(static_cast<float>(value)));
  coarse = rounded;
  fine = static_cast<float>(value - static_cast<double>(rounded));
}

class SyntheticSource : public LayerSource {
 public:
  explicit SyntheticSource(const SyntheticSpec& spec) : spec_(spec) {}

  [[nodiscard]] RecordedLayer load(std::int64_t layer_index) const override {
    RecordedLayer layer;
    layer.q_positions = query_positions(layer_index);
    for (std::int64_t kv_head = 0; kv_head < spec_.kv_heads; ++kv_head) {
      kv::RowMatrix k = kv::RowMatrix::Zero(spec_.tokens, spec_.head_dim);
      kv::RowMatrix v(spec_.tokens, spec_.head_dim);
      fill_with_noise(RandomStream(spec_.seed, stream_name("values", layer_index, kv_head)), v);
      const std::int64_t group_size = spec_.query_heads / spec_.kv_heads;
      kv::RowMatrix q = kv::RowMatrix::Zero(group_size * spec_.queries, spec_.head_dim);
      if (spec_.kind == Kind::rope) {
        fill_rope(k, q);
      } else {
        fill_with_noise(RandomStream(spec_.seed, stream_name("keys", layer_index, kv_head)),
                        k.rightCols(spec_.head_dim - kLogitChannels));
        fill_logits(layer_index, kv_head, layer.q_positions, k, q);
      }
      layer.k_pre.push_back(std::move(k));
      layer.v.push_back(std::move(v));
      layer.q_pre.push_back(std::move(q));
    }
    return layer;
  }

  [[nodiscard]] std::vector<std::int64_t> query_positions(std::int64_t) const override {
    std::vector<std::int64_t> positions(static_cast<std::size_t>(spec_.queries));
    std::iota(positions.begin(), positions.end(), spec_.tokens - spec_.queries);
    return positions;
  }

  [[nodiscard]] kv::RowMatrix output_projection(std::int64_t) const override { return {}; }

 private:
  /// The scale 1/sqrt(d) is undone in the queries, so that key channels hold logits.
  [[nodiscard]] float unscaled() const { return std::sqrt(static_cast<float>(spec_.head_dim)); }

  /// Chosen pairs point the same way before rotation, so that their angle afterwards is the distance alone.
  void fill_rope(kv::RowMatrix& k, kv::RowMatrix& q) const {
    const std::int64_t half = spec_.head_dim / 2;
    const std::int64_t first = spec_.pair < 0 ? 0 : spec_.pair;
    const std::int64_t num_pairs = spec_.pair < 0 ? half : 1;
    k.middleCols(first, num_pairs).setOnes();
    q.middleCols(first, num_pairs)
        .setConstant(static_cast<float>(spec_.strength / static_cast<double>(num_pairs)) * unscaled());
  }

  void fill_logits(std::int64_t layer_index, std::int64_t kv_head, const std::vector<std::int64_t>& positions,
                   kv::RowMatrix& k, kv::RowMatrix& q) const {
    if (spec_.kind == Kind::uniform) return;
    q.leftCols(2).setConstant(unscaled());
    if (spec_.kind == Kind::needle) {
      k.col(0).segment(needle_start(spec_), spec_.needle_length).setConstant(static_cast<float>(spec_.strength));
    } else if (spec_.kind == Kind::ar1) {
      const std::vector<double> x = importance(spec_, layer_index, kv_head);
      for (std::int64_t j = 0; j < spec_.tokens; ++j) put_precisely(x[static_cast<std::size_t>(j)], k(j, 0), k(j, 1));
    } else if (spec_.kind == Kind::recency) {
      // Only differences within a query matter: relative to the last token, -r (p - j) becomes r (j - last), and the
      // sinks, which keep their logit at every p, get the query's r (p - last) from a channel of their own.
      const double rate = std::log(2.0) / spec_.half_life;
      const std::int64_t last = spec_.tokens - 1;
      for (std::int64_t j = 0; j < spec_.tokens; ++j) {
        const bool is_sink = j < spec_.sinks;
        put_precisely(is_sink ? spec_.strength : rate * static_cast<double>(j - last), k(j, 0), k(j, 1));
        k(j, 2) = is_sink ? 1.0F : 0.0F;
      }
      for (std::int64_t row = 0; row < q.rows(); ++row) {
        const std::int64_t position = positions[static_cast<std::size_t>(row) % positions.size()];
        q(row, 2) = static_cast<float>(rate * static_cast<double>(position - last)) * unscaled();
      }
    }
  }

  SyntheticSpec spec_;
};

}  // namespace

std::string_view to_string(Kind kind) {
  return kKinds.at(static_cast<std::size_t>(kind)).second;
}

Kind synthetic_kind(const std::string& name) {
  std::vector<std::string_view> known;
  for (const auto& [kind, text] : kKinds) {
    if (text == name) return kind;
    known.push_back(text);
  }
  throw InputError(fmt::format("synthetic.kind: expected one of {}, got \"{}\"", fmt::join(known, ", "), name));
}

Trace make_synthetic(const SyntheticSpec& spec) {
  validate(spec);
  TraceInfo info;
  info.origin = fmt::format("synthetic: {}, {} tokens, seed {}", to_string(spec.kind), spec.tokens, spec.seed);
  info.format = "synthetic";
  info.model = fmt::format("synthetic {}", to_string(spec.kind));
  info.num_model_layers = spec.layers;
  info.num_query_heads = spec.query_heads;
  info.num_kv_heads = spec.kv_heads;
  info.head_dim = spec.head_dim;
  info.rope_theta = spec.kind == Kind::rope ? spec.theta : 0;
  info.attention_scale = 1 / std::sqrt(static_cast<double>(spec.head_dim));
  info.num_tokens = spec.tokens;
  info.num_context = spec.tokens - spec.question_tokens;
  info.question = {info.num_context, spec.tokens - 1};
  info.answer = {spec.tokens - 1, spec.tokens - 1};
  info.layers.resize(static_cast<std::size_t>(spec.layers));
  std::iota(info.layers.begin(), info.layers.end(), std::int64_t{0});
  std::vector<Probe> probes;
  if (spec.kind == Kind::needle) {
    Probe probe{"needle", "", needle_start(spec), spec.needle_length, {}, true};
    for (std::int64_t i = 0; i < spec.needle_length; ++i) probe.digit_positions.push_back(probe.start + i);
    probes.push_back(std::move(probe));
  }
  return {std::move(info), {}, {}, std::move(probes), std::make_shared<SyntheticSource>(spec)};
}

double known_logit(const SyntheticSpec& spec, std::int64_t layer_index, std::int64_t kv_head,
                   std::int64_t query_position, std::int64_t position) {
  const auto distance = static_cast<double>(query_position - position);
  switch (spec.kind) {
    case Kind::uniform:
      return 0;
    case Kind::needle: {
      const std::int64_t offset = position - needle_start(spec);
      return offset >= 0 && offset < spec.needle_length ? spec.strength : 0;
    }
    case Kind::recency:
      return position < spec.sinks ? spec.strength : -std::log(2.0) * distance / spec.half_life;
    case Kind::ar1:
      return importance(spec, layer_index, kv_head)[static_cast<std::size_t>(position)];
    case Kind::rope: {
      const std::int64_t half = spec.head_dim / 2;
      double sum = 0;
      for (std::int64_t i = 0; i < half; ++i)
        if (spec.pair < 0 || spec.pair == i)
          sum += std::cos(distance * std::pow(spec.theta, -static_cast<double>(i) / static_cast<double>(half)));
      return spec.strength * sum / static_cast<double>(spec.pair < 0 ? half : 1);
    }
  }
  return 0;
}

}  // namespace kvtide::attention
