"""The headline says what the numbers say."""

import numpy as np
import pytest

from kvtide_analysis import open_results, settings
from kvtide_analysis.certainty import certainty
from kvtide_analysis.columns import write
from kvtide_analysis.verdict import verdict


@pytest.fixture()
def results(demo_file):
    opened = open_results(demo_file)
    opened.summary["loss_worst"] = 0.5
    opened.summary["loss_mean"] = 0.1
    return opened


def test_best_is_the_largest_saving_within_the_bound(results):
    results.summary.loc[[4, 16], "loss_worst"] = [0.2, 0.21]  # evict-50 B 64 (saves 50 %) at the bound; int4 B 64 (72 %) just over
    first = verdict(results, worst_max=0.2)[0]
    assert first.startswith("evict-50, B 64 saves most with no span of 8 tokens losing more than 20.0 %: 50.0 % of the KV cache")
    assert "at 20.0 % loss in the worst span and 10.0 % in the mean" in first
    assert "24 concurrent sequences instead of 12, a token of each every 27.50 ms instead of 25.00." in first  # 25 + 5 / 2


def test_mean_above_the_worst_span_is_explained(results):
    results.summary.loc[4, ["loss_worst", "loss_mean"]] = [0.1, 0.15]
    assert ("at 10.0 % loss in the worst span and 15.0 % in the mean (which is weighted by attention, a span is not)"
            in verdict(results, 0.2)[0])


def test_identity_is_never_the_best(results):
    results.summary.loc[0, "loss_worst"] = 0.0
    assert verdict(results, worst_max=0.2)[0] == "No setting that saves memory keeps every span of 8 tokens at or under 20.0 % loss."


def test_worst_offenders_are_counted_and_hidden_means_are_told(results):
    results.summary.loc[7, "loss_worst"] = 0.9
    said = " ".join(verdict(results, worst_max=0.2))
    assert "22 of 22 settings lose more than 20.0 % of some span of 8 tokens; in 22 of them the mean hides it" in said  # every mean is 0.1
    assert "Largest: 90.0 %, in evict-25, B 64." in said


def test_of_equally_bad_settings_the_one_with_the_largest_mean_is_named(results):
    results.summary.loc[[7, 9], "loss_worst"] = [0.9999, 1.0]  # both are written 100.0 %
    results.summary.loc[7, "loss_mean"] = 0.3
    assert "Largest: 100.0 %, in 2 settings; of these evict-25, B 64 has the largest mean." in " ".join(verdict(results, 0.2))


def test_periods_are_compared_with_block_size_only_after_they_were_found(results):
    results.summary.loc[1, "period"] = 128.0  # B is 64: every other block
    said = " ".join(verdict(results, worst_max=0.2))
    # 4 eviction policies x 3 blocks are on the grid; one of them at twice its block size.
    assert "12 lose whole blocks on a grid" in said and "10 show no period" in said
    assert "is block_size in 11, 2 x block_size in 1 of these 12" in said


def test_one_multiple_for_all_periods_is_said_once(results):
    assert "The period found in the loss is block_size in every one of these." in " ".join(verdict(results, 0.2))


def test_runs_without_numbers_leave_a_plain_sentence(results):
    results.summary["loss_worst"] = np.nan
    assert verdict(results, 0.2) == ["No verdict: no run has both a saving and a loss."]


def test_cache_that_does_not_bind_is_said_of_the_batch_only(results):
    assert not any("limit:" in sentence for sentence in verdict(results, 0.2))
    results.summary["kv_bound"] = 0
    assert verdict(results, 0.2)[-1].startswith("At this batch the cache is not the limit: twice as many sequences fit without compression")


def resolved_as(results, **columns):
    for name, values in columns.items():
        results.summary[name] = values
    return results


def test_metric_without_a_bound_has_a_largest_loss_and_no_share(results):
    results.summary.loc[7, "loss_worst"] = 2.155
    said = verdict(resolved_as(results, loss_metric="bits_lost"), worst_max=None)
    assert said[0] == "No bound is set for bits lost per element (--worst-max), so that no setting is within it."
    assert said[1] == "Largest: 2.15 bit, in evict-25, B 64."
    assert not any("%" in sentence for sentence in said)
    assert "with no span of 8 tokens losing more than 0.6 bit" in verdict(results, worst_max=0.6)[0]


def test_losses_of_several_metrics_are_not_compared(results):
    resolved_as(results, loss_metric=["mass_loss"] * 11 + ["bits_lost"] * 11)
    assert verdict(results, worst_max=0.2) == [
        "No verdict: the losses are of several metrics (bits_lost, mass_loss), which cannot be compared."]


def test_resolved_span_is_said_not_that_of_the_yaml(results):
    assert "every span of 16 tokens" in verdict(resolved_as(results, loss_span_setting=16.0), worst_max=0.1)[0]
    assert "every span of loss.span tokens" in verdict(resolved_as(results, loss_span_setting=[4.0] * 11 + [16.0] * 11), worst_max=0.1)[0]


@pytest.mark.parametrize(("row", "text"), [
    ({"period_kind": "none", "period": np.nan}, "no period found"),
    ({"period_kind": "grid_locked", "period": 64.0, "cycles": 31.58}, "jumps on one grid, 31.6 cycles"),
    ({"period_kind": "level", "period": 64.0, "periodicity_p": 0.001, "cycles": 8.0}, "level repeats, p = 0.001, 8 cycles"),
    ({"period_kind": "likely", "period": 64.0, "periodicity_p": 0.02, "cycles": 3.0}, "likely, not proven (p = 0.02), 3 cycles"),
    ({"period_kind": "likely", "period_certainty": "likely, 200 more points would prove it"}, "likely, 200 more points would prove it"),
])
def test_certainty_never_calls_likely_proven(row, text):
    assert certainty(row) == text


def test_values_are_written_for_people():
    assert write(0.71875, "percent") == "71.9 %"
    assert write(98304, "integer") == "98,304"
    assert write(np.nan, "percent") == "–"
    assert write(1.434, "factor") == "1.43 ×"


def test_block_size_comes_from_sweep_then_resolved_setting_then_file_then_default(demo_file):
    results = open_results(demo_file)
    assert settings.block_size(results, 3) == 256
    results.summary = results.summary.drop(columns="compression.block_size")
    results.summary["compression_setting"] = "{block_size: 96, stages: []}"
    assert settings.block_size(results, 3) == 96
    results.summary = results.summary.drop(columns="compression_setting")
    results.attrs["experiment_yaml"] = "compression: {block_size: 32}"
    assert settings.block_size(results, 3) == 32
    results.attrs["experiment_yaml"] = "name: x"
    assert settings.block_size(results, 3) == 128


def test_labels_tell_every_two_runs_apart(demo_file):
    results = open_results(demo_file)
    results.attrs["swept_keys"] = "seed\nloss.share\nratio"
    results.summary["seed"] = [1234567 + run for run in range(22)]
    results.summary["loss.share"] = [float(f"0.1{run:06d}") for run in range(22)]
    results.summary["ratio"] = 2.0
    assert settings.run_label(results, 0) == "seed 1234567, share 0.1, ratio 2"
    assert settings.run_label(results, 1) == "seed 1234568, share 0.1000001, ratio 2"


def test_warnings_tell_a_borrowed_loss_model_and_failed_runs(demo_file):
    results = open_results(demo_file)
    results.attrs["loss_model"] = "smollm2-135m (GGUF, float32)"
    first = settings.warnings(results)[0]
    assert "attention of smollm2-135m over 2,021 tokens; bytes and times are those of llama-3.1-8b over 32,768 tokens" in first
    results.summary.loc[2, ["status", "status_reason"]] = ["failed", "does not fit: needs 90 GB"]
    assert any("evict-75, B 128 has no result: does not fit: needs 90 GB." == text for text in settings.warnings(results))
    # What --set made of the experiment; of models that are swept none is named.
    resolved_as(results, model_setting="llama-3.2-1b", context_tokens_setting=2048.0)
    assert "those of llama-3.2-1b over 2,048 tokens" in settings.warnings(results)[0]
    resolved_as(results, model_setting=["llama-3.2-1b", "smollm2-135m"] * 11)
    assert "those of each run's own model over 2,048 tokens" in settings.warnings(results)[0]
    results.summary = results.summary.drop(columns=["model_setting", "context_tokens_setting"])
    results.attrs["loss_model"], results.attrs["loss_tokens"] = "llama-3.1-8b", 32768
    assert not any("two models" in text or "lengths differ" in text for text in settings.warnings(results))
