// Wrong, damaged and hostile trace files: one clear error each, whatever the bytes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>

#include "attention/synthetic.h"
#include "attention/trace.h"
#include "attention/trace_writer.h"
#include "base/error.h"
#include "base/random.h"
#include "hdf5/hdf5_file.h"

namespace kvtide::attention {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A sound trace of one layer (of 4), 2 KV heads, 4 query heads, head_dim 4, 10 tokens, queries 6..9; every part can be
/// spoilt.
struct SmallTrace {
  std::string format = "kvtide-trace-1";
  std::map<std::string, std::int64_t> integers = {{"n_layers_model", 4}, {"n_q_heads", 4}, {"n_kv_heads", 2},
                                                  {"head_dim", 4},       {"n_tokens", 10}, {"n_context", 7}};
  std::map<std::string, double> numbers = {{"rope_theta", 10000}, {"attn_scale", 0.5}};
  std::vector<std::int64_t> question = {7, 9};
  std::vector<std::int64_t> answer = {9, 9};
  std::vector<std::int64_t> layers = {2};
  std::vector<double> layer_rope_thetas;  ///< empty: not written
  std::vector<std::int64_t> q_positions = {6, 7, 8, 9};
  std::map<std::string, std::vector<std::uint64_t>> shapes = {
      {"/layer_02/k_pre", {2, 10, 4}}, {"/layer_02/v", {2, 10, 4}}, {"/layer_02/q_pre", {4, 4, 4}}};
  std::map<std::string, float> spoilt_element;  ///< value of element [1, 2, 3] of a tensor
  std::vector<std::int64_t> probe_start = {2};
  std::vector<std::int64_t> probe_length = {3};
  std::vector<std::int64_t> digits = {3, 4};
  std::int64_t asked = 0;
  std::int64_t num_token_ids = 10;

  void write(const std::string& path) const {
    hdf5::OutputFile file(path);
    file.attribute("/", "format", format);
    file.attribute("/", "model", std::string("small"));
    for (const auto& [name, value] : integers) file.attribute("/", name, value);
    for (const auto& [name, value] : numbers) file.attribute("/", name, value);
    file.attribute("/", "question", question);
    file.attribute("/", "answer", answer);
    file.dimension("/layers", layers, {"layers"});
    if (!layer_rope_thetas.empty()) {
      file.dimension("/bases", std::vector<std::int64_t>(layer_rope_thetas.size()), {"bases"});
      file.write("/layer_rope_theta", std::span<const double>(layer_rope_thetas), {"/bases"}, {"bases"});
    }
    file.dimension("/layer_02/q_positions", q_positions, {"positions"});
    for (const auto& [dataset, shape] : shapes) {
      std::uint64_t elements = 1;
      for (const std::uint64_t extent : shape) elements *= extent;
      std::vector<float> values(elements, 0.5F);
      if (const auto spoilt = spoilt_element.find(dataset); spoilt != spoilt_element.end())
        values[(1 * shape[1] + 2) * shape[2] + 3] = spoilt->second;
      file.write_float16(dataset, values, shape, {"tensor"});
    }
    file.dimension("/tokens/ids", std::vector<std::int64_t>(static_cast<std::size_t>(num_token_ids), 1), {"ids"});
    file.dimension("/probes/probe", std::vector<std::int64_t>(probe_start.size()), {"probe"});
    file.dimension("/probes/digit", std::vector<std::int64_t>(digits.size()), {"digit"});
    file.attribute("/probes", "asked", asked);
    file.write("/probes/start", std::span<const std::int64_t>(probe_start), {"/probes/probe"}, {"start"});
    file.dimension("/probes/length", probe_length, {"length"});
    file.write("/probes/digit_positions", std::span<const std::int64_t>(digits), {"/probes/probe", "/probes/digit"},
               {"digits"});
    file.commit();
  }
};

class TraceValidation : public testing::Test {
 protected:
  TraceValidation() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvtide-trace-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    path_ = (folder_ / "trace.h5").string();
  }
  ~TraceValidation() override { std::filesystem::remove_all(folder_); }

  /// Findings about a trace spoilt in one way.
  std::vector<std::string> findings(const std::function<void(SmallTrace&)>& spoil) const {
    SmallTrace trace;
    spoil(trace);
    trace.write(path_);
    return check_trace(path_);
  }

  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(TraceValidation, SoundTraceHasNoFindings) {
  EXPECT_THAT(findings([](SmallTrace&) {}), IsEmpty());
  EXPECT_EQ(trace_info(path_).num_context, 7);
}

TEST_F(TraceValidation, ABaseForEachLayerTakesThePlaceOfTheCommonOne) {
  EXPECT_THAT(findings([](SmallTrace& trace) { trace.layer_rope_thetas = {1e6}; }), IsEmpty());
  EXPECT_EQ(trace_info(path_).layer_rope_theta(0), 1e6);
  EXPECT_EQ(Trace::open(path_).load_layer(0).front().rope.theta, 1e6);
  EXPECT_THAT(findings([](SmallTrace& trace) { trace.layer_rope_thetas = {0.5}; }),
              ElementsAre(HasSubstr("/layer_rope_theta: expected 0 (no rotation) or a number from 1, found 0.5")));
  EXPECT_THAT(findings([](SmallTrace& trace) {
                trace.layer_rope_thetas = {1e4, 1e6};
              }),
              ElementsAre(HasSubstr("/layer_rope_theta: expected one number for each of 1 layers, found 2")));
}

TEST_F(TraceValidation, EveryWrongAttributeIsNamed) {
  const auto integer = [this](const char* name, std::int64_t value) {
    return findings([&](SmallTrace& trace) { trace.integers[name] = value; });
  };
  EXPECT_THAT(integer("head_dim", 513), ElementsAre(HasSubstr("/@head_dim: expected 2..512, found 513")));
  EXPECT_THAT(integer("head_dim", 3), Contains(HasSubstr("an even number")));
  EXPECT_THAT(integer("n_tokens", 1 + kMaxTraceTokens), ElementsAre(HasSubstr("/@n_tokens: expected 1..1048576")));
  EXPECT_THAT(integer("n_tokens", -1), ElementsAre(HasSubstr("/@n_tokens")));
  EXPECT_THAT(integer("n_kv_heads", 0), ElementsAre(HasSubstr("/@n_kv_heads: expected 1..1024, found 0")));
  EXPECT_THAT(integer("n_kv_heads", 3), ElementsAre(HasSubstr("4 query heads do not divide among 3 KV heads")));
  EXPECT_THAT(integer("n_context", 10), IsEmpty());
  EXPECT_THAT(integer("n_context", 11), ElementsAre(HasSubstr("/@n_context: 11 context tokens of 10")));
  EXPECT_THAT(integer("n_layers_model", 3), IsEmpty());
  // A number that is not allowed bounds no layer (-2^63 - 1 would overflow).
  EXPECT_THAT(integer("n_layers_model", std::numeric_limits<std::int64_t>::min()),
              ElementsAre(HasSubstr("/@n_layers_model: expected 1..1024, found -9223372036854775808")));
  EXPECT_THAT(integer("n_layers_model", 2), ElementsAre(HasSubstr("/layers: expected ascending layers in 0..1")));
  const auto number = [this](const char* name, double value) {
    return findings([&](SmallTrace& trace) { trace.numbers[name] = value; });
  };
  EXPECT_THAT(number("rope_theta", NAN), ElementsAre(HasSubstr("/@rope_theta")));
  EXPECT_THAT(number("rope_theta", 0), IsEmpty());
  EXPECT_THAT(number("rope_theta", 0.5), ElementsAre(HasSubstr("/@rope_theta")));
  EXPECT_THAT(number("attn_scale", 0), ElementsAre(HasSubstr("/@attn_scale")));
  EXPECT_THAT(findings([](SmallTrace& trace) { trace.integers.erase("n_tokens"); }),
              ElementsAre(HasSubstr("/@n_tokens: the attribute is missing")));
  EXPECT_THAT(findings([](SmallTrace& trace) { trace.format = "other"; }), ElementsAre(HasSubstr("\"other\"")));
  EXPECT_THAT(findings([](SmallTrace& trace) { trace.question = {7}; }),
              Contains(HasSubstr("/@question: expected two")));
  EXPECT_THAT(findings([](SmallTrace& trace) { trace.question = {9, 7}; }), ElementsAre(HasSubstr("found 9..7")));
  EXPECT_THAT(findings([](SmallTrace& trace) { trace.answer = {9, 10}; }), ElementsAre(HasSubstr("/@answer")));
}

TEST_F(TraceValidation, EveryWrongShapeIsNamed) {
  const auto shape = [this](const char* dataset, std::vector<std::uint64_t> value) {
    return findings([&](SmallTrace& trace) { trace.shapes[dataset] = value; });
  };
  EXPECT_THAT(shape("/layer_02/k_pre", {2, 9, 4}),
              ElementsAre(HasSubstr("/layer_02/k_pre: expected shape [2, 10, 4], found [2, 9, 4]")));
  EXPECT_THAT(shape("/layer_02/v", {1, 10, 4}), ElementsAre(HasSubstr("/layer_02/v")));
  EXPECT_THAT(shape("/layer_02/q_pre", {4, 4, 5}), ElementsAre(HasSubstr("/layer_02/q_pre")));
  EXPECT_THAT(shape("/layer_02/q_pre", {4, 16}), ElementsAre(HasSubstr("found [4, 16]")));
  EXPECT_THAT(findings([](SmallTrace& trace) { trace.shapes.erase("/layer_02/v"); }),
              ElementsAre(HasSubstr("/layer_02/v: not in the file")));
  EXPECT_THAT(findings([](SmallTrace& trace) {
                trace.q_positions = {6, 7, 7, 9};
              }),
              ElementsAre(HasSubstr("found 7 at index 2")));
  EXPECT_THAT(findings([](SmallTrace& trace) {
                trace.q_positions = {7, 8, 9, 10};
              }),
              ElementsAre(HasSubstr("found 10 at index 3")));
  EXPECT_THAT(findings([](SmallTrace& trace) { trace.layers = {3}; }), testing::Not(IsEmpty()));
  EXPECT_THAT(findings([](SmallTrace& trace) { trace.layers = {2, 2}; }), ElementsAre(HasSubstr("/layers")));
  EXPECT_THAT(findings([](SmallTrace& trace) { trace.num_token_ids = 9; }),
              ElementsAre(HasSubstr("/tokens/ids: expected 10 values, found 9")));
}

TEST_F(TraceValidation, EveryWrongProbeIsNamed) {
  EXPECT_THAT(findings([](SmallTrace& trace) { trace.probe_length = {8}; }), IsEmpty());  // 2 + 8 = 10
  EXPECT_THAT(findings([](SmallTrace& trace) { trace.probe_length = {9}; }), ElementsAre(HasSubstr("/probes/start")));
  EXPECT_THAT(findings([](SmallTrace& trace) { trace.probe_length = {INT64_MAX}; }),
              ElementsAre(HasSubstr("/probes/start")));
  EXPECT_THAT(findings([](SmallTrace& trace) { trace.probe_start = {-1}; }), ElementsAre(HasSubstr("/probes/start")));
  EXPECT_THAT(findings([](SmallTrace& trace) {
                trace.digits = {3, 10};
              }),
              ElementsAre(HasSubstr("expected positions in 0..9, found 10")));
  EXPECT_THAT(findings([](SmallTrace& trace) { trace.asked = 1; }), ElementsAre(HasSubstr("/probes@asked")));
  EXPECT_THAT(findings([](SmallTrace& trace) {
                trace.probe_length = {3, 3};
              }),
              ElementsAre(HasSubstr("/probes/length: expected 1 values, found 2")));
}

TEST_F(TraceValidation, AllFindingsAreReportedTogether) {
  EXPECT_THAT(findings([](SmallTrace& trace) {
                trace.shapes["/layer_02/v"] = {2, 10, 5};
                trace.num_token_ids = 4;
                trace.probe_start = {11};
              }),
              ElementsAre(HasSubstr("/layer_02/v"), HasSubstr("/tokens/ids"), testing::_));
  try {
    (void)Trace::open(path_);
    FAIL() << "opened";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/layer_02/v"));
    EXPECT_THAT(error.what(), HasSubstr("and 2 more"));
  }
}

TEST_F(TraceValidation, ValueThatIsNotFiniteIsFoundWhenTheLayerIsRead) {
  for (const float value : {NAN, INFINITY}) {
    EXPECT_THAT(findings([&](SmallTrace& trace) {
                  trace.spoilt_element["/layer_02/v"] = value;
                  trace.spoilt_element["/layer_02/q_pre"] = value;
                }),
                ElementsAre(HasSubstr("/layer_02/v: "), HasSubstr("/layer_02/q_pre: ")));
    EXPECT_THAT(check_trace(path_).front(), HasSubstr("at row 2, channel 3"));
    EXPECT_THROW((void)Trace::open(path_).load_layer(0), InputError);
  }
}

/// What became of checking and loading a file in a process of its own.
std::string fate_of(const std::string& path) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(120);  // a file that hangs the library is given up after 20 s, twice
    try {
      (void)check_trace(path);
      const Trace trace = Trace::open(path);
      for (std::int64_t i = 0; i < trace.num_layers(); ++i) (void)trace.load_layer(i);
      ::_exit(0);
    } catch (const Error& error) {
      ::_exit(error.kind() == Error::Kind::input ? 2 : 3);
    } catch (...) {
      ::_exit(99);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return "exit " + std::to_string(WEXITSTATUS(status));
}

std::string bytes_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST_F(TraceValidation, TruncatedFilesAreInputErrors) {
  SmallTrace().write(path_);
  for (const std::string& source : {path_, std::string(KVTIDE_SOURCE_DIR "/experiments/traces/smollm2-135m-2k.h5")}) {
    const std::string bytes = bytes_of(source);
    const std::string copy = (folder_ / "truncated.h5").string();
    for (const double share : {0.0, 0.001, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999}) {
      std::ofstream(copy, std::ios::binary)
          << bytes.substr(0, static_cast<std::size_t>(share * static_cast<double>(bytes.size())));
      EXPECT_EQ(fate_of(copy), "exit 2") << source << " cut to " << share;
    }
    std::ofstream(copy, std::ios::binary) << bytes.substr(0, bytes.size() - 1);
    EXPECT_EQ(fate_of(copy), "exit 2") << source << " without its last byte";
  }
}

TEST_F(TraceValidation, FlippedBytesNeverCrashOrHang) {
  SmallTrace().write(path_);
  const std::string bytes = bytes_of(path_);
  const std::string copy = (folder_ / "flipped.h5").string();
  // One file in a hundred crashes or hangs the HDF5 library itself, when it reads text; such a file is met first in a child.
  RandomStream random(7, "flipped bytes");
  std::map<std::string, int> fates;
  for (int i = 0; i < 200; ++i) {
    std::string mutated = bytes;
    for (std::uint64_t flips = 1 + random.below(4); flips > 0; --flips)
      mutated[random.below(mutated.size())] ^= static_cast<char>(1 + random.below(255));
    std::ofstream(copy, std::ios::binary) << mutated;
    const std::string fate = fate_of(copy);
    ++fates[fate];
    EXPECT_THAT(fate, testing::AnyOf("exit 0", "exit 2")) << "mutation " << i;
  }
  EXPECT_GT(fates["exit 2"], 20);  // the flips do reach what is checked
}

TEST_F(TraceValidation, HugeDeclarationIsRefusedWithoutItsMemory) {
  // The header claims what is allowed at most; the tensors are not there.
  SmallTrace trace;
  trace.integers["n_tokens"] = kMaxTraceTokens;
  trace.write(path_);
  EXPECT_EQ(fate_of(path_), "exit 2");
}

}  // namespace
}  // namespace kvtide::attention
