#include "cli/show_resonance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "base/error.h"
#include "base/quoted_text.h"
#include "cli/table.h"
#include "loss/rope_resonance.h"
#include "model/model.h"
#include "model/rope_wavelengths.h"

namespace kvtide::cli {
namespace {

constexpr std::int64_t kLargestBlock = 65536;
/// Of the block sizes that people choose, the range in which nearby better ones are named.
constexpr std::int64_t kNamedFrom = 8;
constexpr std::int64_t kNamedTo = 512;

std::vector<double> parse_block_sizes(const std::string& text) {
  std::vector<double> sizes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::int64_t size = 0;
    const auto [rest, error] = std::from_chars(text.data() + begin, text.data() + end, size);
    if (error != std::errc{} || rest != text.data() + end || size < 2 || size > kLargestBlock) {
      throw InputError(
          fmt::format("--block-sizes: expected integers in 2..{} between commas, got \"{}\"", kLargestBlock, text));
    }
    sizes.push_back(static_cast<double>(size));
    begin = end + 1;
  }
  return sizes;
}

struct Spectrum {
  std::string layers;
  std::vector<double> wavelengths;
  double amplitude = 1;
};

std::vector<Spectrum> spectra_of(const Model& model) {
  std::vector<Spectrum> result;
  const auto add = [&](const char* layers, const Rope& rope) {
    std::vector<double> wavelengths = rope_wavelengths(rope, model.max_positions, model.max_positions);
    if (!wavelengths.empty())
      result.push_back({layers, std::move(wavelengths), rope_amplitude(rope, model.max_positions)});
  };
  add("full layers", model.rope);
  const bool has_sliding =
      std::any_of(model.layers.begin(), model.layers.end(), [](const LayerKind& kind) { return kind.window > 0; });
  if (has_sliding) add("sliding layers", model.sliding_rope);
  if (result.size() == 2 && result[0].wavelengths == result[1].wavelengths) {
    result.pop_back();
    result[0].layers = "all layers";
  }
  if (result.empty())
    throw InputError(fmt::format("{}: no rotary positions, so no wavelengths to resonate with", model.name));
  return result;
}

std::string tokens(double value) {
  return std::isfinite(value) ? fmt::format("{:.0f}", value) : "never";
}
std::string json_tokens(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

std::string resonance_json(const loss::BlockResonance& one) {
  return fmt::format(
      R"({{"block_size": {}, "pair": {}, "wavelength": {}, "pooled_amplitude": {}, "beat_tokens": {}, "sidebands": [{}, {}], )"
      R"("pairs_within": {}, "pairs_near": {}, "energy_kept_post_rope": {}, "post_rope_edge_over_centre": {}, "pre_rope_edge_loss": {}, )"
      R"("quantizer_pair": {}, "quantizer_wavelength": {}, "quantizer_beat_tokens": {}, "quantizer_pairs": {}, "resonates": {}}})",
      one.block_size, one.pair, one.wavelength, one.amplitude, json_tokens(one.beat), one.sideband_low,
      json_tokens(one.sideband_high), one.pairs_within, one.pairs_near, one.energy_kept, one.post_edge_over_centre,
      one.pre_edge_loss, one.quantizer_pair, one.quantizer_wavelength, json_tokens(one.quantizer_beat),
      one.quantizer_pairs, one.resonates);
}

void print_spectrum(const Spectrum& spectrum, const Model& model, std::span<const double> block_sizes) {
  const auto [low, high] = std::minmax_element(spectrum.wavelengths.begin(), spectrum.wavelengths.end());
  const auto never = std::count_if(spectrum.wavelengths.begin(), spectrum.wavelengths.end(), [&](double wavelength) {
    return model.max_positions > 0 && wavelength > static_cast<double>(model.max_positions);
  });
  fmt::print("\n{}, {}: {} pairs, {:.2f} to {:.4g} tokens a turn, {} longer than the context{}\n", model.name,
             spectrum.layers, spectrum.wavelengths.size(), *low, *high, never,
             spectrum.amplitude == 1 ? "" : fmt::format(", amplitude {:.4f}", spectrum.amplitude));
  Table table({{"block", Align::right},
               {"nearest pair", Align::right},
               {"wavelength", Align::right},
               {"pooled |D|", Align::right},
               {"beat", Align::right},
               {"sidebands", Align::right},
               {"pairs <= B", Align::right},
               {"within 2x", Align::right},
               {"energy kept", Align::right},
               {"edge/centre", Align::right},
               {"pre-RoPE edge", Align::right},
               {"group beat", Align::right},
               {"resonates", Align::left}});
  for (const double size : block_sizes) {
    const loss::BlockResonance one = loss::block_resonance(spectrum.wavelengths, size);
    table.add_row(
        {fmt::format("{:g}", size), fmt::format("#{}", one.pair), fmt::format("{:.1f}", one.wavelength),
         fmt::format("{:.3f}", one.amplitude), tokens(one.beat),
         fmt::format("{:.1f}, {}", one.sideband_low, tokens(one.sideband_high)), fmt::format("{}", one.pairs_within),
         fmt::format("{}", one.pairs_near), fmt::format("{:.3f}", one.energy_kept),
         fmt::format("{:.2f}", one.post_edge_over_centre), fmt::format("{:.3f}", one.pre_edge_loss),
         fmt::format("{} ({})", tokens(one.quantizer_beat), one.quantizer_pairs), one.resonates ? "yes" : "no"});
  }
  fmt::print("{}", table.text());
  std::vector<std::string> named;
  constexpr std::size_t kNamed = 12;
  for (const auto& one : loss::resonant_block_sizes(spectrum.wavelengths, kNamedFrom, kNamedTo)) {
    if (named.size() == kNamed) break;
    named.push_back(fmt::format("{:g} ({})", one.block_size, tokens(one.beat)));
  }
  fmt::print("block sizes in {}..{} that sit closest on a wavelength (beat in tokens): {}\n", kNamedFrom, kNamedTo,
             named.empty() ? "none" : fmt::format("{}", fmt::join(named, ", ")));
}

}  // namespace

void show_resonance(const std::string& model_name, const std::string& block_sizes, bool as_json) {
  if (model_name.empty())
    throw InputError("kvtide show resonance: expected --model NAME or a path (kvtide show models lists them)");
  const Model model = load_model(model_name);
  const std::vector<double> sizes = parse_block_sizes(block_sizes.empty() ? "16,32,64,128,256" : block_sizes);
  const std::vector<Spectrum> spectra = spectra_of(model);
  if (as_json) {
    std::vector<std::string> items;
    for (const Spectrum& spectrum : spectra) {
      std::vector<std::string> blocks;
      for (const double size : sizes)
        blocks.push_back(resonance_json(loss::block_resonance(spectrum.wavelengths, size)));
      items.push_back(fmt::format(
          "{{\"layers\": \"{}\", \"amplitude\": {}, \"wavelengths\": [{}],\n  \"blocks\": [\n    {}\n  ]}}",
          spectrum.layers, spectrum.amplitude, fmt::join(spectrum.wavelengths, ", "), fmt::join(blocks, ",\n    ")));
    }
    fmt::print("{{\"model\": {}, \"spectra\": [{}]}}\n", quoted_text(model.name), fmt::join(items, ", "));
    return;
  }
  for (const Spectrum& spectrum : spectra) print_spectrum(spectrum, model, sizes);
  fmt::print(
      "\npooled |D|: what is left of that pair when a block of rotated keys is averaged. beat: tokens until its phase "
      "at block starts repeats\n"
      "(the second period). energy kept: of a constant key, all pairs, pooled after rotation; edge/centre: its loss at "
      "a block's ends over\n"
      "the middle. pre-RoPE edge: loss at the ends when unrotated keys are averaged and turned to the block's middle "
      "(0 there; of 4).\n"
      "group beat: second period of per-channel key quantization in groups of this many tokens (pairs that swing). "
      "Evicting blocks leaves kept\n"
      "keys as they are: no |D|, only the grid's own period. resonates: a beat of at least {:g} blocks.\n",
      loss::kResonantBlocks);
}

}  // namespace kvtide::cli
