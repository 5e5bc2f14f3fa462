"""`kvtide run` with fleets, fronts, priorities and host memory: what each key changes, and what a wrong one says."""

import h5py
import pytest

from tested_program import kvtide
from test_serving_run import FILE

DRAWN = 'poisson: {rate: "4 /s", input_tokens: 1000, output_tokens: 50, requests: 40}'
ENGINE = "engine: {max_model_len: 4096"


def run(tmp_path, text, *arguments):
    (tmp_path / "fleet.yaml").write_text(text)
    done = kvtide("run", tmp_path / "fleet.yaml", "-o", tmp_path / "fleet.h5", "--quiet", *arguments)
    assert done.returncode == 0, done.stderr
    return h5py.File(tmp_path / "fleet.h5")


def test_gaps_between_tokens_are_there_one_by_one_and_counted(tmp_path):
    with run(tmp_path, FILE) as file:
        serving = file["runs/00000/serving"]
        assert serving["itl_s"].shape == (40 * 49,)
        assert serving["itl_count"][:].sum() == 40 * 49
        first = serving["itl_s"][:49]
        assert first.sum() == pytest.approx(49 * serving["tpot_s"][0], rel=1e-6)
        assert serving["itl_max_s"][0] == pytest.approx(first.max(), rel=1e-6)
        summary = file["summary"]
        assert summary["itl_p50_s"][0] <= summary["itl_p99_s"][0] <= summary["itl_max_s"][0] * 1.001


def test_two_engines_answer_sooner_than_one(tmp_path):
    busy = FILE.replace('rate: "4 /s"', 'rate: "100 /s"')
    with run(tmp_path, busy) as one:
        alone = one["summary/latency_mean_s"][0]
    for routing in ("round_robin", "least_loaded"):
        with run(tmp_path, busy.replace(ENGINE, f"{ENGINE}, data_parallel: 2, routing: {routing}")) as two:
            assert two["summary/serving_engines"][0] == 2
            assert two["summary/latency_mean_s"][0] < alone


# 1,000 tokens of 131,072 B at 1 GB/s: 0.131 s between the first token and the second.
def test_prefill_apart_from_decode_sends_the_cache_over_its_link(tmp_path):
    text = FILE.replace(ENGINE, f'{ENGINE}, disaggregation: {{prefill_replicas: 1, bandwidth: "1 GB/s"}}')
    with run(tmp_path, text) as file:
        assert file["summary/transferred_tokens"][0] == 40 * 1000
        assert file["runs/00000/serving/itl_max_s"][:].min() >= 0.131


def test_preempted_caches_go_to_host_memory(tmp_path):
    tight = FILE.replace('rate: "4 /s"', 'rate: "100 /s"').replace("output_tokens: 50", "output_tokens: 400")
    tight = tight.replace(ENGINE, f"{ENGINE}, num_blocks: 400")
    with run(tmp_path, tight) as file:
        assert file["summary/preemptions"][0] > 0 and not file["summary/swaps"][0] > 0
    with run(tmp_path, tight.replace("num_blocks: 400", 'num_blocks: 400, swap_space: "16 GiB"')) as file:
        assert file["summary/swaps"][0] == file["summary/preemptions"][0] > 0


def test_urgent_requests_wait_less(tmp_path):
    text = FILE.replace('rate: "4 /s"', 'rate: "100 /s"').replace(
        "requests: 40", "requests: 40, priorities: [{priority: -1, share: 0.5}]")
    text = text.replace(ENGINE, f"{ENGINE}, scheduling_policy: priority, max_num_seqs: 4")
    with run(tmp_path, text) as file:
        serving = file["runs/00000/serving"]
        is_urgent = serving["priority"][:] == -1
        assert 5 < is_urgent.sum() < 35
        assert serving["queue_s"][:][is_urgent].mean() < serving["queue_s"][:][~is_urgent].mean()


# Blocks of 64: half of the requests behind 66 tokens see the grid moved by 2; padded to 128 nobody does.
def test_fronts_move_the_grid_unless_they_are_padded(tmp_path):
    text = FILE + """compression: {block_size: 64, protect: {sinks: 4, window: 16}, stages: [{evict: {scorer: attention_sum, keep_ratio: 0.5}}]}
"""
    front = DRAWN + "\n  front: {texts: [{name: system, tokens: 66, share: 0.5}]"
    with run(tmp_path, text.replace(DRAWN, front + "}")) as file:
        summary = file["summary"]
        assert summary["front_loss_change"][0] > 0
        assert summary["front_padded_loss_change"][0] == 0
        assert summary["front_padded_loss_mean"][0] == pytest.approx(summary["loss_mean"][0], rel=1e-9)
        assert file["runs/00000/front/share"][:].sum() == pytest.approx(1)
        assert set(file["runs/00000/front/tokens"][:]) == {0, 66}
        bare = summary["front_tokens"][0]
        assert summary["front_padding_tokens"][0] == 0 and 20 < bare < 46
    with run(tmp_path, text.replace(DRAWN, front + ", padding: true}")) as file:
        assert file["summary/front_tokens"][0] == pytest.approx(bare * 128 / 66)
        assert file["summary/front_padding_tokens"][0] == pytest.approx(bare * 62 / 66)


def test_facts_weigh_the_loss_by_their_places(tmp_path):
    (tmp_path / "facts.csv").write_text("place,weight\n0,1\n0.99999,3\n")
    with run(tmp_path, FILE.replace(DRAWN, DRAWN + "\n  facts: facts.csv")) as file:
        loss = file["runs/00000/loss/mass_loss"][:]
        assert file["summary/expected_loss_measured"][0] == pytest.approx((loss[0] + 3 * loss[-1]) / 4, abs=1e-9)


def test_every_percentile_has_its_interval_between_seeds(tmp_path):
    with run(tmp_path, FILE.replace(DRAWN, DRAWN + "\n  seeds: 3")) as file:
        for name in ("ttft_mean", "ttft_p99", "tpot_p50", "latency_p95", "queue_p99", "itl_p99"):
            assert file[f"summary/{name}_half_width_s"][0] >= 0
        assert file["summary/goodput_half_width_per_s"][0] >= 0


@pytest.mark.parametrize(
    "old, new, message",
    [
        (ENGINE, f"{ENGINE}, capacity_policy: max_utilization", "engine.capacity_policy: is TensorRT-LLM's"),
        (ENGINE, f"{ENGINE}, scheduling_policy: lifo", "engine.scheduling_policy"),
        (ENGINE, f"{ENGINE}, data_parallel: 0", "engine.data_parallel"),
        (ENGINE, f"{ENGINE}, swap_space: 16", "engine.swap_space"),
        (DRAWN, DRAWN + "\n  front: {}", "workload.front: expected texts"),
        (DRAWN, DRAWN + "\n  front: {texts: [{tokens: 5, share: 0.6}, {tokens: 6, share: 0.6}]}", "add up to 1.2"),
        (DRAWN, DRAWN + "\n  facts: none.csv", "workload.facts: no file"),
        (DRAWN, "requests: .", "workload.requests: expected a CSV file"),
        ("input_tokens: 1000", "input_tokens: {uniform, lognormal}", "{uniform: {min, max}}: one of them"),
        (DRAWN, DRAWN.replace("requests: 40", "requests: 40, priorities: [{share: 1}]"), "priority"),
    ],
)
def test_wrong_fleets_name_their_key(tmp_path, old, new, message):
    assert old in FILE
    (tmp_path / "wrong.yaml").write_text(FILE.replace(old, new))
    done = kvtide("run", tmp_path / "wrong.yaml", "-o", tmp_path / "x.h5")
    assert done.returncode == 2 and message in done.stderr, done.stderr
