"""The position lab from outside: mitigations, planted probes, claims. Expected values are derived in comments."""

import json
import os

import h5py
import numpy as np
import pytest

from tested_program import TRACE, kvtide


def write(folder, name, **keys):
    path = folder / name
    base = {"name": "t", "model": "llama-3.1-8b", "gpu": "h100-sxm", "trace": str(TRACE), "measure": ["loss"]}
    path.write_text("\n".join(f"{key}: {json.dumps(value)}" for key, value in {**base, **keys}.items()) + "\n")
    return path


def summary(folder, **keys):
    out = folder / "t.h5"
    done = kvtide("run", write(folder, "t.yaml", **keys), "-o", out, "--quiet")
    assert done.returncode == 0, done.stderr
    with h5py.File(out) as file:
        return {name: file["summary"][name][()] for name in file["summary"]}


HALF = [{"evict": {"keep_ratio": 0.5}}]


def test_padded_prefix_changes_nothing_and_costs_half_a_block(tmp_path):
    got = summary(tmp_path, measure=["prefix_scan"], compression={"partition": {"kind": "prefix_pad"}, "stages": HALF})
    assert got["prefix_worst"] == 0
    assert got["padding_tokens"] == 64  # (128 - 1) / 2, rounded up
    assert np.isnan(got["prefix_period"])


def test_unpadded_prefix_repeats_with_the_block(tmp_path):
    got = summary(tmp_path, measure=["prefix_scan"], compression={"block_size": 96, "stages": HALF})
    assert got["prefix_period"] == 96
    assert got["prefix_worst"] > 0.9


POOL = [{"pool": {"width": 4}}]
SHORT = {"synthetic": {"kind": "rope", "tokens": 1024, "layers": 1, "kv_heads": 1, "query_heads": 1, "head_dim": 16}}


# A grid moved by two is a grid at offset two: pools of four lie across what were pools.
@pytest.mark.parametrize("block_size", [64, 128])
def test_a_prefix_of_half_a_pool_is_among_those_measured(tmp_path, block_size):
    out = tmp_path / "t.h5"
    keys = {"trace": SHORT, "measure": ["loss", "prefix_scan"], "compression": {"block_size": block_size, "protect": {"sinks": 0, "window": 0},
            "stages": POOL}, "sweep": {"compression.partition.offset": [0, 2]}}
    done = kvtide("run", write(tmp_path, "t.yaml", **keys), "-o", out, "--quiet")
    assert done.returncode == 0, done.stderr
    with h5py.File(out) as file:
        plain, moved = (file[f"runs/{run:05}/loss/mass_loss"][:] for run in (0, 1))
        change = np.abs(moved - plain).sum() / 1024  # the question's positions, which lose nothing, count too
        assert file["summary/prefix_sensitivity_two"][0] == pytest.approx(change, rel=1e-6)
        assert file["summary/prefix_sensitivity"][0] >= change * (1 - 1e-6)


# Everything but the grid stays, so the change repeats with the block, whatever divides it.
@pytest.mark.parametrize("stages, sizes", [(HALF, [130, 131, 255]), (POOL, [20, 50, 64, 66, 100, 131])])
def test_the_prefix_period_is_the_block(tmp_path, stages, sizes):
    got = summary(tmp_path, trace=SHORT, measure=["prefix_scan"], compression={"protect": {"sinks": 0, "window": 0}, "stages": stages},
                  sweep={"compression.block_size": sizes})
    assert got["prefix_period"].tolist() == sizes


def test_overlap_costs_what_its_storage_says(tmp_path):
    stored = ["duplicate", "union", "quantized_halo", "score_only"]
    got = summary(
        tmp_path,
        measure=["memory"],
        compression={"stages": HALF},
        sweep={
            "compression.partition": [
                {"label": name, "value": {"kind": "overlap", "overlap": {"fraction": 0.25, "storage": name}}}
                for name in stored
            ]
        },
    )
    share = dict(zip(stored, got["overlap_share_compressed"]))
    assert share["duplicate"] == pytest.approx(1 / 3, abs=0.01)  # 1 / (1 - 0.25) - 1
    assert 0 < share["union"] <= 1 / 6 + 0.01  # d (1 - f) at most, less where neighbours are kept together
    assert share["quantized_halo"] == pytest.approx(4.25 / 16 / 3, abs=0.01)  # d * bits / 16
    assert share["score_only"] == pytest.approx(0, abs=1e-12)
    # All of it measured against the uncompressed cache: half.
    assert got["overlap_share_full"] == pytest.approx(got["overlap_share_compressed"] / 2, rel=0.01)


def test_overlap_of_a_fact_less_one_token_cuts_no_fact(tmp_path):
    # T12: 2,021 positions hold 2,008 spans of 14; each of the 15 inner boundaries of 128 cuts 13 of them.
    # With a halo of 12 (0.09375 * 128) one span a window is cut, with 13 none.
    plain = {"kind": "fixed"}
    short = {"kind": "overlap", "overlap": {"fraction": 0.09375}}
    enough = {"kind": "overlap", "overlap": {"fraction": 0.1015625}}
    got = summary(tmp_path, compression={"stages": HALF}, loss={"span": 14},
                  sweep={"compression.partition": [plain, short, enough]})
    assert got["cut_rate"][0] == pytest.approx(15 * 13 / 2008)
    # Windows begin every 116 positions and end at 128 + 116 k; 17 of these ends lie below 2,021.
    assert got["cut_rate"][1] == pytest.approx(17 / 2008)
    assert got["cut_rate"][2] == 0


# Blocks of two lie at offset 0 or 1, so that k of n requests lose m1 and the others m0: the mean is m0 + (m1 - m0) k / n and
# its deviation |m1 - m0| sqrt(k / n (1 - k / n)), the root of (mean - m0) (m1 - mean).
@pytest.mark.parametrize("metric", ["mass_loss", "output_loss", "bits_lost"])
def test_deviation_between_requests_is_that_of_the_mean_loss(tmp_path, metric):
    def lost(**partition):
        return summary(tmp_path, loss={"metric": metric, "requests": 8},
                       compression={"block_size": 2, "partition": partition, "stages": HALF})

    low, high = sorted(lost(kind="fixed", offset=offset)["loss_mean"][0] for offset in (0, 1))
    drawn = lost(kind="random_offset")
    mean = drawn["loss_mean"][0]
    assert low < mean < high
    assert drawn["loss_mean_deviation"][0] == pytest.approx(np.sqrt((mean - low) * (high - mean)), rel=1e-6)


# Half of a position's attention gone is a fact gone; half of an output error or of its bits is not.
def test_lost_facts_are_counted_in_attention_only(tmp_path):
    got = summary(tmp_path, measure=["loss", "position_scan"], compression={"stages": HALF},
                  sweep={"loss.metric": ["mass_loss", "output_loss", "bits_lost"]})
    for column in ("longest_lost_run", "split_rate", "position_stability"):
        assert np.isfinite(got[column]).tolist() == [True, False, False], column
    assert got["loss_metric"].tolist() == [b"mass_loss", b"output_loss", b"bits_lost"]


@pytest.mark.parametrize("metric, units", [("bits_lost", "bit"), ("output_loss", "1")])
def test_loss_has_the_unit_of_its_metric(tmp_path, metric, units):
    out = tmp_path / "t.h5"
    done = kvtide("run", write(tmp_path, "t.yaml", measure=["loss"], loss={"metric": metric}, compression={"stages": HALF}), "-o", out)
    assert done.returncode == 0, done.stderr
    assert (" bit " in done.stdout) == (units == "bit")
    with h5py.File(out) as file:
        assert file["summary/loss_mean"].attrs["units"] == units
        assert file["summary/loss_worst_over_mean"].attrs["units"] == "1"
        assert file["runs/00000/phase/loss"].attrs["units"] == units


def test_recorded_fact_moved_through_its_text(tmp_path):
    got = summary(tmp_path, measure=["position_scan"], compression={"block_size": 64, "stages": HALF},
                  probe={"source": "trace", "step": 64})
    with h5py.File(tmp_path / "t.h5") as file:
        success = file["runs/00000/scan/success"][:]
    assert success.shape == (31,)  # a fact of 16 before the scoring queries at 1957: 0, 64, .., 1920
    assert success[0] == 1  # block 0 holds the sinks
    assert success.min() < 0.5 < success.max()
    assert got["probe_success"] == pytest.approx(success.mean())


def test_lost_attention_goes_to_somebody(tmp_path):
    got = summary(tmp_path, compression={"block_size": 64, "stages": HALF})
    with h5py.File(tmp_path / "t.h5") as file:
        gain = file["runs/00000/redistribution/gain"][:]
        survival = file["runs/00000/generation/survival"][:]
        lost = file["runs/00000/loss/lost_mass"][:].sum()
    assert gain.shape == (2, 5)
    assert gain.sum(axis=1).mean() == pytest.approx(lost, rel=1e-6)
    assert np.all(np.diff(survival) <= 0)
    assert 0 < got["gain_to_sinks"] < 1


def test_anchor_tokens_stay_within_the_budget(tmp_path):
    got = summary(
        tmp_path,
        measure=["memory", "loss"],
        sweep={
            "compression": [
                {"label": "plain", "value": {"stages": HALF}},
                {"label": "trace", "value": {"stages": HALF, "protect": {"anchors": "trace", "anchor_scope": "token"}}},
            ]
        },
    )
    assert got["kv_bytes"][1] == pytest.approx(got["kv_bytes"][0], rel=0.01)
    assert got["anchor_share"][1] == pytest.approx(64 / 2021)  # four probes of 16 tokens
    assert got["loss_mean"][1] < got["loss_mean"][0]


def test_identity_with_smooth_positions_is_not_free(tmp_path):
    got = summary(
        tmp_path,
        sweep={"compression.positions": [{"kind": "original"}, {"kind": "contiguous"}, {"kind": "smooth", "width": 8}]},
    )
    assert got["output_error"][0] == 0
    assert got["output_error"][1] == 0  # nothing evicted, nothing moves
    assert got["output_error"][2] > 0.01


def test_planted_probe_scan(tmp_path):
    got = summary(
        tmp_path,
        measure=["position_scan"],
        compression={"block_size": 64, "stages": HALF},
        probe={"kind": "factual", "span": 4, "margin": 10, "step": 8},
    )
    assert got["probe_full_success"] == 1
    assert 0 < got["probe_success"] < 1
    assert got["probe_control"] < 0.15  # chance is 1 / 16
    with h5py.File(tmp_path / "t.h5") as file:
        scan = file["runs/00000/scan"]
        assert list(scan["position"][:3]) == [0, 8, 16]
        assert set(np.unique(scan["success"])) <= {0.0, 1.0}
        assert scan["success"].shape == scan["margin"].shape == scan["mass"].shape == scan["bits"].shape


@pytest.mark.parametrize("source", ["planted", "trace"])
def test_a_probe_in_the_full_cache_is_found_everywhere(tmp_path, source):
    got = summary(tmp_path, measure=["position_scan"], compression={"block_size": 64, "stages": []},
                  probe={"source": source, "step": 256})
    assert got["probe_success"] == 1
    assert got["position_stability"] == 1


def test_probe_of_a_codec_is_refused(tmp_path):
    path = write(
        tmp_path, "t.yaml", measure=["position_scan"], probe={"kind": "keyword"},
        compression={"stages": [{"quantize": {"format": "int8"}}]},
    )
    done = kvtide("run", path, "-o", tmp_path / "t.h5", "--quiet")
    assert done.returncode == 1
    assert "only evict" in done.stderr


CLAIM = {"id": "X1", "says": "something"}
UNIFORM = {"synthetic": {"kind": "uniform", "tokens": 512}}


def claim(folder, *checks):
    write(folder, "x1.yaml", trace=UNIFORM, claim={**CLAIM, "checks": list(checks)},
          compression={"block_size": 32}, sweep={"compression.stages": [{"label": "none", "value": []},
                                                                       {"label": "half", "value": HALF}]})
    done = kvtide("claims", folder, "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["claims"][0]


def check(part, stages, **relation):
    return {"part": part, "value": {"column": "loss_mean", "where": {"compression.stages": stages}}, **relation}


def test_claims_hold_hold_if_or_do_not_hold(tmp_path):
    lossless = check("nothing compressed", "none", between=[0, 0])
    lossy = check("half compressed", "half", above=0.2)
    wrong = check("half compressed is free", "half", below=0.001)
    assert claim(tmp_path, lossless, lossy)["verdict"] == "holds"
    assert claim(tmp_path, lossless, wrong)["verdict"] == "holds if: nothing compressed"
    assert claim(tmp_path, wrong)["verdict"] == "does not hold"
    other = check("more than without", "half",
                  above={"column": "loss_mean", "where": {"compression.stages": "none"}}, times=2)
    assert claim(tmp_path, other)["verdict"] == "holds"


@pytest.mark.parametrize(
    "bad, words",
    [
        ({"part": "x", "value": {"column": "los_mean"}, "above": 1}, "unknown column"),
        ({"part": "x", "value": {"column": "loss_mean"}}, "exactly one of above, below, between"),
        ({"part": "x", "value": {"column": "loss_mean"}, "between": [1]}, "expected [low, high]"),
    ],
)
def test_damaged_claims_are_errors_at_their_place(tmp_path, bad, words):
    write(tmp_path, "x1.yaml", trace=UNIFORM, claim={**CLAIM, "checks": [bad]})
    done = kvtide("claims", tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert "x1.yaml:" in done.stderr


def test_a_file_without_a_claim_and_an_empty_folder_are_errors(tmp_path):
    assert "no .yaml" in kvtide("claims", tmp_path).stderr
    path = write(tmp_path, "t.yaml")
    done = kvtide("claims", path)
    assert done.returncode == 2
    assert "has no claim" in done.stderr


@pytest.mark.skipif(os.environ.get("KVTIDE_TEST_SCOPE") != "all", reason="runs 14 experiments; kvtide test --all")
def test_every_shipped_claim_has_a_verdict():
    done = kvtide("claims", "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    claims = json.loads(done.stdout)["claims"]
    assert [claim["id"] for claim in claims] == [f"S{index}" for index in range(1, 15)]
    for one in claims:
        assert all(check["value"] is not None for check in one["checks"]), one
