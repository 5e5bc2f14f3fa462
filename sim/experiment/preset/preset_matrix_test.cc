// One policy, two observers, for every preset by its name: what must hold whoever composed it. A new preset is a row of its own
// (policy_matrix_test.cc and codec_matrix_test.cc do the same for scorers and codecs).

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "experiment/preset/preset.h"
#include "experiment/setting_reader.h"
#include "kv/cache_timeline.h"
#include "kv/compression/importance.h"
#include "kv/testing/random_layer.h"
#include "loss/loss_meter.h"

namespace kvtide::experiment {
namespace {

constexpr std::int64_t kPositions = 820;   ///< recorded, queries at each
constexpr std::int64_t kCompressed = 800;  ///< a block of 128 is free before the largest window of 512
constexpr std::int64_t kHeads = 8;         ///< what presets over several heads ask for
constexpr std::int64_t kHeadDim = 64;

Setting setting_of(const Preset& preset) {
  config::Document document = config::Document::parse(
      "model: llama-3.1-8b\ngpu: h100-sxm\ntrace: {synthetic: {kind: uniform, tokens: 256}}\n", preset.name);
  document.set("compression", "{preset: " + preset.name + "}");
  expand_preset(document);
  NameResolver resolver("");
  Setting setting = read_setting(document.root(), resolver);
  document.throw_if_errors();
  return setting;
}

const std::vector<std::pair<std::string, Setting>>& rows() {
  static const std::vector<std::pair<std::string, Setting>> table = [] {
    std::vector<std::pair<std::string, Setting>> made;
    for (const Preset& preset : presets()) made.emplace_back(preset.name, setting_of(preset));
    return made;
  }();
  return table;
}

const kv::LayerTensors& layer() {
  static const kv::LayerTensors tensors = kv::testing::random_layer(kHeads, kPositions, kHeadDim, 7, 10000, true);
  return tensors;
}

const kv::Evict* evict_of(const kv::Compression& setting) {
  for (const kv::Stage& stage : setting.stages) {
    if (const auto* evict = std::get_if<kv::Evict>(&stage)) return evict;
  }
  return nullptr;
}

/// Scores as the evict stage asks for them; of equal numbers where nothing scores.
kv::LayerScores scores_of(const kv::Compression& setting, std::int64_t num_positions, const kv::LayerTensors& tensors) {
  static const kv::RowMatrix output_projection = kv::RowMatrix::Random(32, kHeads * kHeadDim);
  const kv::Evict* evict = evict_of(setting);
  if (evict == nullptr) return {};
  return kv::importance(setting, *evict, tensors,
                        {.num_positions = num_positions, .output_projection = &output_projection});
}

kv::LayerCache cache_of(const kv::Compression& setting, std::int64_t num_positions,
                        const kv::LayerTensors& tensors = layer()) {
  return kv::compress_layer(setting, num_positions, kHeads, kHeadDim, scores_of(setting, num_positions, tensors),
                            &tensors);
}

loss::PositionLoss loss_of(const kv::LayerCache& cache) {
  static const loss::AttentionReference reference = [] {
    loss::AttentionReference made({kCompressed, kPositions - 1});
    made.add_layer(layer());
    return made;
  }();
  return loss::measure_loss(reference, {cache}, loss::HeadReduction::mean);
}

/// Keep 1, 16 bits, every channel, pools of one.
kv::Compression harmless(kv::Compression setting) {
  for (kv::Stage& stage : setting.stages) {
    if (auto* evict = std::get_if<kv::Evict>(&stage)) {
      evict->keep = 1'000'000;
      evict->threshold.reset();
    } else if (auto* quantize = std::get_if<kv::Quantize>(&stage)) {
      quantize->k_format = quantize->v_format = "fp16";
    } else if (auto* low_rank = std::get_if<kv::LowRank>(&stage)) {
      low_rank->k_share = low_rank->v_share = 1'000'000;
    } else if (auto* pool = std::get_if<kv::Pool>(&stage)) {
      pool->width = 1;
    }
  }
  return setting;
}

TEST(PresetMatrix, KeepOneAndSixteenBitsLoseNothing) {
  for (const auto& [name, setting] : rows()) {
    const loss::PositionLoss loss = loss_of(cache_of(harmless(setting.compression), kCompressed));
    EXPECT_EQ(loss.output_error, 0) << name;
    EXPECT_EQ(loss.lost_attention, 0) << name;
    EXPECT_EQ(*std::ranges::max_element(loss.mass_loss), 0) << name;
  }
}

// T4. Presets that share layers change nothing within one layer.
TEST(PresetMatrix, LossIsAdditiveAndThere) {
  for (const auto& [name, setting] : rows()) {
    const loss::PositionLoss loss = loss_of(cache_of(setting.compression, kCompressed));
    const double sum = std::accumulate(loss.output_loss_signed.begin(), loss.output_loss_signed.end(), 0.0);
    const double squared = loss.output_error_rms * loss.output_error_rms;
    EXPECT_NEAR(sum, squared, 1e-5 * squared) << name;  // sums of evicted positions are products in float32
    EXPECT_EQ(squared > 0, !setting.compression.stages.empty()) << name;
  }
}

// Q7: every position keeps its number; sinks, window and what comes later are as recorded.
TEST(PresetMatrix, PositionsSurvive) {
  for (const auto& [name, setting] : rows()) {
    const kv::LayerCache cache = cache_of(setting.compression, kCompressed);
    for (std::size_t head = 0; head < cache.heads.size(); ++head) {
      const kv::HeadCache& of_head = cache.heads[head];
      ASSERT_EQ(of_head.num_positions, kPositions) << name;
      const kv::EntryTable& table = *of_head.entries;
      for (std::int64_t position = 0; position < kPositions; ++position) {
        const bool is_exact =
            position < setting.compression.sinks || position >= kCompressed - setting.compression.window;
        if (!is_exact) continue;
        const std::int32_t entry = table.entry_of[static_cast<std::size_t>(position)];
        ASSERT_GE(entry, 0) << name << " " << position;
        const bool is_target = evict_of(setting.compression) != nullptr &&
                               kv::changes_entries(evict_of(setting.compression)->rest) && position < kCompressed;
        if (table.is_recorded || is_target) continue;
        if (setting.compression.positions == kv::PositionCoding::original) {
          ASSERT_TRUE(table.k.row(entry) == layer()[head].k_post.row(position)) << name << " " << position;
        }
        ASSERT_TRUE(table.v.row(entry) == layer()[head].v.row(position)) << name << " " << position;
      }
    }
  }
}

// Q8: what is shorter than a block is protected whole (but where a preset lets it compete); a prompt of one or two positions
// keeps something in any case.
TEST(PresetMatrix, ShortPromptsAreHarmless) {
  for (const auto& [name, setting] : rows()) {
    const std::int64_t block = setting.compression.block_size;
    for (const std::int64_t size : {std::int64_t{1}, std::int64_t{2}, block - 1}) {
      if (size < 1 || size > kCompressed) continue;
      const kv::LayerCache cache = cache_of(setting.compression, size);
      for (const kv::HeadCache& head : cache.heads) {
        const auto kept = size - std::count(head.entries->entry_of.begin(), head.entries->entry_of.begin() + size, -1);
        EXPECT_GE(kept, 1) << name << " " << size;
      }
      if (block > size && setting.compression.protects_filling_block) {
        EXPECT_EQ(loss_of(cache).output_error, 0) << name << " " << size;
      }
    }
  }
}

/// The layer with everything that comes behind the compressed positions drawn anew.
kv::LayerTensors with_another_future() {
  kv::LayerTensors other = kv::testing::random_layer(kHeads, kPositions, kHeadDim, 70, 10000, true);
  for (std::size_t head = 0; head < other.size(); ++head) {
    const kv::HeadTensors& recorded = layer()[head];
    kv::HeadTensors& changed = other[head];
    for (auto part : {&kv::HeadTensors::k_pre, &kv::HeadTensors::k_post, &kv::HeadTensors::v, &kv::HeadTensors::q_post,
                      &kv::HeadTensors::q_pre}) {
      if ((changed.*part).rows() > 0) (changed.*part).topRows(kCompressed) = (recorded.*part).topRows(kCompressed);
    }
  }
  return other;
}

// Q3: nothing that comes later decides: with another future every position has the same entry, and that the same numbers to the
// bit, so that choosing twice is choosing the same.
TEST(PresetMatrix, ChoicesAreCausalAndDeterministic) {
  const kv::LayerTensors other = with_another_future();
  for (const auto& [name, setting] : rows()) {
    const kv::LayerCache first = cache_of(setting.compression, kCompressed);
    const kv::LayerCache elsewhere = cache_of(setting.compression, kCompressed, other);
    for (std::size_t head = 0; head < first.heads.size(); ++head) {
      const kv::EntryTable& table = *first.heads[head].entries;
      const kv::EntryTable& again = *elsewhere.heads[head].entries;
      ASSERT_EQ(table.entry_of, again.entry_of) << name;
      if (table.is_recorded) continue;
      std::int64_t differing = 0;
      for (std::int64_t position = 0; position < kCompressed; ++position) {
        const std::int32_t entry = table.entry_of[static_cast<std::size_t>(position)];
        if (entry >= 0 && !(table.k.row(entry) == again.k.row(entry) && table.v.row(entry) == again.v.row(entry)))
          ++differing;
      }
      EXPECT_EQ(differing, 0) << name;
    }
  }
}

// What a step streams are the pages of every layer that reads them: those that are stored, once a layer that shares them (or its
// coefficients), but those that a preset leaves unread.
TEST(PresetMatrix, BytesAreThePagesTheMachineReads) {
  Model model;
  model.name = "small";
  model.num_layers = 4;
  model.num_query_heads = 16;
  model.num_kv_heads = kHeads;
  model.head_dim = kHeadDim;
  model.hidden_size = 256;
  for (const auto& [name, setting] : rows()) {
    kv::RecordedScores recorded{4, {1}, {scores_of(setting.compression, kCompressed, layer())}, kCompressed, kHeads};
    recorded.budget = setting.layer_budget;
    const kv::CacheTimeline timeline(
        {model, setting.compression, 16, kv::CacheLayout::per_head, 1, setting.schedule, setting.sharing}, recorded,
        2048);
    Bytes streamed = 0;
    for (const kv::LayerAttention& attention : timeline.attention()) {
      for (const gpu::AttentionTask& task : attention.work.tasks) {
        for (const gpu::PageStream& stream : task.streams) {
          streamed += stream.bytes * static_cast<Bytes>(task.count * attention.num_layers);
        }
      }
    }
    Bytes stored = 0;
    Bytes read = 0;
    for (const kv::DistinctLayer& distinct : timeline.cache().layers) {
      kv::ServedCache alone;
      alone.layers = {distinct};
      stored += kv::sequence_bytes(alone, 16, kv::CacheLayout::per_head).total;
      alone.layers.front().num_stored_layers = distinct.num_layers;
      read += kv::sequence_bytes(alone, 16, kv::CacheLayout::per_head).total;
    }
    EXPECT_EQ(stored, kv::sequence_bytes(timeline.cache(), 16, kv::CacheLayout::per_head).total) << name;
    const kv::Evict* evict = evict_of(setting.compression);
    const bool has_common_coefficients = std::ranges::any_of(setting.compression.stages, [](const kv::Stage& stage) {
      const auto* low_rank = std::get_if<kv::LowRank>(&stage);
      return low_rank != nullptr && low_rank->layers > 1;
    });
    if (has_common_coefficients) {
      EXPECT_GT(streamed, read) << name;
    } else if (evict != nullptr && evict->rest == kv::Rest::unread) {
      EXPECT_LT(streamed, read) << name;
    } else {
      // Digests are read by the kernels that choose, not by attention.
      const std::int64_t vectors = kv::digests_of_steps(setting.compression).vectors_of(2048);
      const auto digests = static_cast<Bytes>(vectors * kHeadDim * 2 * kHeads * model.num_layers);
      EXPECT_EQ(streamed + digests, read) << name;
    }
    EXPECT_EQ(stored < read, setting.sharing.is_on()) << name;
  }
}

}  // namespace
}  // namespace kvtide::experiment
