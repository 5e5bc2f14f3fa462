#include "experiment/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"

namespace kvtide::experiment {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kBase =
    "name: t\nmodel: llama-3.1-8b\ngpu: h100-sxm\ntrace: {synthetic: {kind: uniform, tokens: 64}}\n";

Experiment parse(const std::string& text, const Overrides& overrides = {}) {
  return parse_experiment(kBase + text, "t.yaml", ".", overrides);
}
std::string error_of(const std::string& text) {
  try {
    (void)parse(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

/// Labels of one axis, run by run.
std::vector<std::string> column(const Experiment& experiment, const std::string& name) {
  const auto axis = std::ranges::find(experiment.axes, name, &Axis::column);
  std::vector<std::string> labels;
  for (const Run& run : experiment.runs) {
    labels.push_back(axis->labels[static_cast<std::size_t>(
        run.axis_values[static_cast<std::size_t>(axis - experiment.axes.begin())])]);
  }
  return labels;
}

std::vector<std::string> range(const std::string& text, bool is_integer_key = false) {
  config::Document document = config::Document::parse(text, "range");
  const std::vector<std::string> values = range_values(document.root(), is_integer_key);
  document.throw_if_errors();
  return values;
}

TEST(SweepRange, TakesStepsUpToTheEnd) {
  EXPECT_THAT(range("{from: 1, to: 7, step: 2}"), ElementsAre("1", "3", "5", "7"));
  EXPECT_THAT(range("{from: 1, to: 6.9, step: 2}"), ElementsAre("1", "3", "5"));
  EXPECT_THAT(range("{from: 8, to: 4, step: -2}"), ElementsAre("8", "6", "4"));
  // 0.1 has no finite binary form: (0.3 - 0.1) / 0.1 is 1.9999999999999998.
  EXPECT_THAT(range("{from: 0.1, to: 0.3, step: 0.1}"), ElementsAre("0.1", "0.2", "0.3"));
}

TEST(SweepRange, SpreadsACountEvenlyOrByEqualFactors) {
  EXPECT_THAT(range("{from: 0, to: 1, count: 5}"), ElementsAre("0", "0.25", "0.5", "0.75", "1"));
  EXPECT_THAT(range("{from: 16, to: 128, count: 4, scale: log}"), ElementsAre("16", "32", "64", "128"));
  EXPECT_THAT(range("{from: 3, to: 9, count: 1}"), ElementsAre("3"));
  // Six decimals, as a keep_ratio takes them; below a thousandth six digits.
  EXPECT_THAT(range("{from: 0, to: 1, count: 4}"), ElementsAre("0", "0.333333", "0.666667", "1"));
  EXPECT_THAT(range("{from: 1e-8, to: 4e-8, count: 2}"), ElementsAre("1e-08", "4e-08"));
}

// 1, 3.67, 6.33, 9 and 16, 25.4, 40.3, 64.
TEST(SweepRange, RoundsBetweenWholeEndsOfAKeyThatTakesWholeNumbers) {
  EXPECT_THAT(range("{from: 1, to: 9, count: 4}", true), ElementsAre("1", "4", "6", "9"));
  EXPECT_THAT(range("{from: 1, to: 9, count: 4, integer: true}"), ElementsAre("1", "4", "6", "9"));
  EXPECT_THAT(range("{from: 16, to: 64, count: 4, scale: log}", true), ElementsAre("16", "25", "40", "64"));
  EXPECT_THAT(range("{from: 1, to: 9.5, count: 2}", true), ElementsAre("1", "9.5"));  // the key says that it is none
}

// Seven whole numbers between 1 and 4 there are not; fewer runs than asked for would be found out late.
TEST(SweepRange, RefusesValuesThatDoNotDiffer) {
  EXPECT_THROW(range("{from: 1, to: 4, count: 7}", true), InputError);
  EXPECT_THAT(range("{from: 1, to: 4, count: 4}", true), ElementsAre("1", "2", "3", "4"));
  EXPECT_THROW(range("{from: 0.5, to: 0.5, count: 2}"), InputError);
}

TEST(SweepRange, RefusesWhatIsNoRange) {
  EXPECT_THROW(range("{from: 1, to: 9, step: 0}"), InputError);
  EXPECT_THROW(range("{from: 1, to: 9, step: -1}"), InputError);
  EXPECT_THROW(range("{from: 1, to: 9, step: 1, count: 3}"), InputError);
  EXPECT_THROW(range("{from: 0, to: 9, count: 3, scale: log}"), InputError);
  EXPECT_THROW(range("{from: 0, to: 9}"), InputError);
}

TEST(Sweep, ARangeIsAnAxis) {
  const Experiment experiment = parse("sweep: {compression.block_size: {range: {from: 16, to: 64, step: 16}}}");
  EXPECT_THAT(column(experiment, "compression.block_size"), ElementsAre("16", "32", "48", "64"));
  EXPECT_EQ(experiment.axes[0].type, AxisType::integer);
  EXPECT_EQ(experiment.runs[3].setting.compression.block_size, 64);
}

TEST(Sweep, ARangeKnowsWhichKeysTakeWholeNumbers) {
  for (const char* key : {"batch", "loss.span", "compression.stages[0].pool.width", "compression.stages.0.pool.width"})
    EXPECT_THAT(error_of(std::string("compression: {stages: [{pool: {}}]}\nsweep:\n  ") + key +
                         ": {range: {from: 1, to: 2, count: 3}}"),
                HasSubstr("do not differ"))
        << key;
  const Experiment experiment = parse("sweep: {trace.synthetic.deviation: {range: {from: 0, to: 2, count: 5}}}");
  EXPECT_THAT(column(experiment, "trace.synthetic.deviation"), ElementsAre("0", "0.5", "1", "1.5", "2"));
}

// 10, 21.54, 46.4, 100: what an engine takes is known where there is a workload, be it in another axis.
TEST(Sweep, ARangeKnowsAKeyThatOnlyAnotherAxisAsksFor) {
  const std::string workload = "{poisson: {rate: 1 /s, requests: 9, input_tokens: 100, output_tokens: 9}}";
  const std::string seqs = "engine.max_num_seqs: {range: {from: 10, to: 100, count: 4, scale: log}}";
  for (const std::string& sweep : {"{workload: [" + workload + "], " + seqs + "}",
                                   "{" + seqs + ", workload: [{label: a, value: " + workload + "}]}",
                                   "{zip: {seed: [2], workload: [" + workload + "]}, " + seqs + "}",
                                   "{zip: [{seed: [2], workload: [" + workload + "]}], " + seqs + "}"}) {
    EXPECT_THAT(column(parse("sweep: " + sweep), "engine.max_num_seqs"), ElementsAre("10", "22", "46", "100")) << sweep;
  }
  const std::string share = "engine.gpu_memory_utilization";
  EXPECT_THAT(column(parse("engine: {kind: sglang}\nsweep: {workload: [" + workload + "], " + share +
                           ": {range: {from: 0, to: 1, count: 3}}}"),
                     share),
              ElementsAre("0", "0.5", "1"));
}

// The needle's place is counted, the logits' deviation is not.
TEST(Sweep, ARangeKnowsTheWholeParametersOfAGenerator) {
  const Experiment experiment = parse("sweep: {trace.synthetic.pair: {range: {from: 10, to: 30, count: 4}}}");
  EXPECT_THAT(column(experiment, "trace.synthetic.pair"), ElementsAre("10", "17", "23", "30"));
  EXPECT_THAT(error_of("sweep: {trace.synthetic.needle_start: [1, 1.5]}"),
              HasSubstr("trace.synthetic.needle_start: expected an integer"));
}

TEST(Sweep, AValueOfARangeIsReportedWhereTheRangeStands) {
  const std::string error = error_of("sweep: {batch: {range: {from: 0, to: 4, step: 2}}}");  // the fifth line
  EXPECT_THAT(error, testing::StartsWith("t.yaml:5:"));
  EXPECT_THAT(error, HasSubstr("batch: expected an integer in 1"));
}

TEST(Sweep, ZippedAxesMoveTogetherAndCombineWithOthers) {
  const Experiment experiment = parse("sweep: {batch: [1, 2], zip: {context_tokens: [100, 200], seed: [7, 7]}}");
  ASSERT_EQ(experiment.runs.size(), 4U);
  EXPECT_THAT(column(experiment, "batch"), ElementsAre("1", "1", "2", "2"));
  EXPECT_THAT(column(experiment, "context_tokens"), ElementsAre("100", "200", "100", "200"));
  EXPECT_THAT(column(experiment, "seed"), ElementsAre("7", "7", "7", "7"));
  EXPECT_THAT(error_of("sweep: {zip: {batch: [1, 2], seed: [1]}}"), HasSubstr("equal lengths"));
}

TEST(Sweep, SeveralZipsAreCombined) {
  const Experiment experiment =
      parse("sweep: {zip: [{batch: [1, 2], seed: [1, 2]}, {context_tokens: [100, 200, 300]}]}");
  EXPECT_EQ(experiment.runs.size(), 6U);
}

TEST(Sweep, AListGivesItsPointsInOrder) {
  const Experiment experiment = parse("sweep: {list: [{batch: 4, seed: 2}, {batch: 1, seed: 2}]}");
  EXPECT_THAT(column(experiment, "batch"), ElementsAre("4", "1"));
  EXPECT_EQ(experiment.runs[1].setting.batch, 1);
  EXPECT_THAT(error_of("sweep: {list: [{batch: 4, seed: 2}, {batch: 1}]}"), HasSubstr("seed is missing"));
  EXPECT_THAT(error_of("sweep: {list: [{batch: 4}, {batch: 1, seed: 2}]}"), HasSubstr("seed: unknown key"));
  EXPECT_THAT(error_of("sweep: {list: []}"), HasSubstr("at least one point"));
}

TEST(Sweep, ALatinHypercubeDrawsFromEachStratumOnce) {
  const Experiment experiment = parse(
      "sweep: {sample: {count: 8, seed: 3, axes: {context_tokens: {from: 1000, to: 9000}, batch: [1, 2, 4, 8]}}}");
  ASSERT_EQ(experiment.runs.size(), 8U);
  std::set<int> strata;
  for (const std::string& label : column(experiment, "context_tokens")) {
    const double tokens = std::stod(label);
    EXPECT_EQ(tokens, std::round(tokens));  // both ends are whole, so are the values
    strata.insert(std::min(7, static_cast<int>((tokens - 1000) / 1000)));
  }
  EXPECT_EQ(strata.size(), 8U);
  std::vector<std::string> batches = column(experiment, "batch");
  std::ranges::sort(batches);
  EXPECT_THAT(batches, ElementsAre("1", "1", "2", "2", "4", "4", "8", "8"));  // two strata of eight each
}

TEST(Sweep, ASampleDependsOnItsSeedAndNotOnOtherAxes) {
  const auto tokens = [](const std::string& rest) {
    return column(
        parse("sweep: {sample: {count: 5, method: random, axes: {context_tokens: {from: 10, to: 9000}" + rest),
        "context_tokens");
  };
  EXPECT_EQ(tokens("}}}"), tokens(", batch: [1, 2]}}}"));
  EXPECT_EQ(tokens("}, seed: 1}}"), tokens("}}}"));
  EXPECT_NE(tokens("}, seed: 2}}"), tokens("}}}"));
}

TEST(Sweep, ConditionsChooseAndTheRunsAreNumberedAfterwards) {
  const Experiment experiment = parse(
      "context_tokens: 100\n"
      "sweep: {compression.block_size: [32, 100, 128], batch: [1, 2], when: [compression.block_size <= context_tokens, "
      "batch != 1]}");
  EXPECT_THAT(column(experiment, "compression.block_size"), ElementsAre("32", "100"));
  EXPECT_THAT(column(experiment, "batch"), ElementsAre("2", "2"));
  EXPECT_EQ(experiment.runs[1].index, 1);
}

TEST(Sweep, ConditionsKnowTheLabelsOfMappings) {
  const Experiment experiment = parse(
      "sweep:\n"
      "  compression.stages: [{label: none, value: []}, {label: four, value: [{quantize: {format: int4, group: "
      "32}}]}]\n"
      "  when: [\"compression.stages == 'four'\"]\n");
  EXPECT_THAT(column(experiment, "compression.stages"), ElementsAre("four"));
}

TEST(Sweep, AConditionThatCannotBeDecidedIsAnError) {
  EXPECT_THAT(error_of("sweep: {batch: [1, 2], when: [batch]}"), HasSubstr("expected KEY OP OPERAND"));
  EXPECT_THAT(error_of("sweep: {batch: [1, 2], when: [cache.page_size <= batch]}"),
              HasSubstr("has no value in this file"));
  EXPECT_THAT(error_of("sweep: {batch: [1, 2], when: [\"name < 'x'\"]}"), HasSubstr("only == and !="));
  EXPECT_THAT(error_of("sweep: {batch: [1, 2], when: [batch > 2]}"), HasSubstr("no combination meets"));
}

TEST(Sweep, AKeyIsSweptOnce) {
  EXPECT_THAT(error_of("sweep: {batch: [1], zip: {batch: [1, 2]}}"), HasSubstr("is already an axis"));
  EXPECT_THAT(error_of("sweep: {zip: {compression: [none], compression.block_size: [1]}}"), HasSubstr("overlaps"));
}

TEST(Sweep, APinnedAxisLeavesItsGroup) {
  const Experiment experiment =
      parse("sweep: {zip: {batch: [1, 2], seed: [5, 6]}}", {.sets = {{"batch", "9"}}, .seed = {}});
  ASSERT_EQ(experiment.axes.size(), 1U);
  EXPECT_EQ(experiment.runs.size(), 2U);
  EXPECT_EQ(experiment.runs[1].setting.batch, 9);
}

TEST(Condition, ComparesNumbersAsNumbersAndTextsAsTexts) {
  const auto value_of = [](const std::string& key) -> std::optional<std::string> {
    if (key == "a") return "9";
    if (key == "b") return "10";
    if (key == "name") return "x<y";
    return std::nullopt;
  };
  EXPECT_TRUE(holds(parse_condition("a < b"), value_of));
  EXPECT_FALSE(holds(parse_condition("a >= b"), value_of));
  EXPECT_TRUE(holds(parse_condition("a<=9.0"), value_of));
  EXPECT_TRUE(holds(parse_condition("a == 9.0"), value_of));
  EXPECT_TRUE(holds(parse_condition("name == 'x<y'"), value_of));
  EXPECT_TRUE(holds(parse_condition("name != 'x'"), value_of));
  EXPECT_THROW((void)holds(parse_condition("a < c"), value_of), InputError);
  EXPECT_THROW((void)parse_condition("1 < a"), InputError);
  EXPECT_THROW((void)parse_condition("'x' == name"), InputError);
  EXPECT_THROW((void)parse_condition("a <"), InputError);
}

}  // namespace
}  // namespace kvtide::experiment
