"""A compressed cache on a real model class, on a tiny one with random weights; the parts without torch everywhere."""

import numpy as np
import pytest
from kvtide_analysis import cli, scan_options, scan_plan
from kvtide_analysis.compressed_cache import Setting, kept_tokens
from kvtide_analysis.exit_codes import InputError
from kvtide_analysis.prompts import Prompt, PromptError, write_prompts


# 200 tokens, blocks of 64: 0..63, 64..127, 128..191, 192..199. Block 0 and those that touch tokens 136..199 (2 and 3) stay: three of four.
def test_half_removed_keeps_what_must_stay():
    mass = np.zeros((1, 200))
    mass[0, 100] = 5
    kept = kept_tokens(mass, Setting(ratio=0.5))[0]
    assert list(kept) == [*range(64), *range(128, 200)]
    # A quarter removed leaves 4 - 1 = 3 as well; nothing removed leaves all.
    assert np.array_equal(kept_tokens(mass, Setting(ratio=0.25))[0], kept)
    assert len(kept_tokens(mass, Setting(ratio=0.0))[0]) == 200


# Grid moved by 4: blocks 0..59, 60..123, 124..187, 188..199. 320 tokens: 0..59, 60..123, 124..187, 188..251, 252..315, 316..319;
# tokens 256.. must stay, so 0, 4, 5 are forced; 6 - 3 = 3 kept: no free one. With a third removed 6 - 1 = 5: two free ones, the best.
def test_moved_grid_cuts_elsewhere_and_the_best_blocks_stay():
    mass = np.zeros((2, 320))
    mass[0, 60], mass[0, 130] = 3, 2
    mass[1, 187], mass[1, 190] = 1, 4
    setting = Setting(ratio=0.3, grid_offset=4)  # floor(6 * 0.3) = 1 removed
    kept = kept_tokens(mass, setting)
    assert list(kept[0]) == [*range(188), *range(252, 320)]  # 188..251 scored nothing
    assert list(kept[1]) == [*range(60), *range(124, 320)]  # 60..123 scored nothing
    shared = kept_tokens(mass, Setting(ratio=0.5, grid_offset=4))
    assert list(shared[0]) == [*range(60), *range(252, 320)]
    # One choice for both heads: sums 3, 2 + 1, 4.
    both = kept_tokens(mass, Setting(ratio=0.2, grid_offset=4, heads="shared"))
    assert np.array_equal(both[0], both[1])


def test_decimal_ratios_are_exact():
    # 10 blocks of 64, 0.3 removed: exactly 3, although 10 * 0.3 in binary is 3.0000000000000004 or less by chance.
    mass = np.ones((1, 640))
    assert len(kept_tokens(mass, Setting(ratio=0.3))[0]) == 7 * 64


def test_settings_are_all_combinations_and_only_evictions_have_ratios():
    parser = __import__("argparse").ArgumentParser()
    scan_options.add_settings(parser)
    found = scan_plan.settings_of(parser.parse_args(["--policy", "evict,int4", "--block", "32,64", "--ratio", "0.25,0.5"]))
    assert len(found) == 2 * 2 + 2
    assert found[-1].label == "aware-int4-64" and found[0].label == "aware-evict-32-0.25-head"
    twice = parser.parse_args(["--policy", "evict,evict", "--block", "64,64", "--ratio", "0.5,0.50"])
    assert [setting.label for setting in scan_plan.settings_of(twice)] == ["aware-evict-64-0.5-head"]
    with pytest.raises(InputError, match="--ratio"):
        scan_plan.settings_of(parser.parse_args(["--ratio", "1.5"]))
    with pytest.raises(InputError, match="expected one of aware, agnostic"):
        scan_plan.settings_of(parser.parse_args(["--mode", "blind"]))


@pytest.fixture(scope="module")
def tiny():
    torch = pytest.importorskip("torch", reason="no torch: models are not run")
    transformers = pytest.importorskip("transformers", reason="no transformers: models are not run")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=50, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                      num_key_value_heads=2, max_position_embeddings=512, attn_implementation="eager",
                                      initializer_range=0.4)
    return transformers.LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def local():
    """Like Gemma 3: a layer that sees 256 tokens and one that sees all, each turned by its own base, queries and keys normalised per
    head."""
    torch = pytest.importorskip("torch", reason="no torch: models are not run")
    transformers = pytest.importorskip("transformers", reason="no transformers: models are not run")
    torch.manual_seed(0)
    config = transformers.Gemma3TextConfig(vocab_size=50, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                           head_dim=8,
                                           num_key_value_heads=2, max_position_embeddings=512, sliding_window=256, query_pre_attn_scalar=8,
                                           layer_types=["sliding_attention", "full_attention"], attn_implementation="eager",
                                           initializer_range=0.4,
                                           rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
                                                            "full_attention": {"rope_type": "default", "rope_theta": 10000.0}})
    return transformers.Gemma3ForCausalLM(config).eval()


@pytest.fixture(scope="module")
def prompt():
    draw = np.random.default_rng(1)
    context = draw.integers(0, 50, 210)
    return Prompt("grid", 7, context, draw.integers(0, 50, 5), context[100:103], 100, "made/up")


def test_nothing_removed_answers_like_the_full_cache(tiny, prompt):
    from kvtide_analysis.model_scan import FULL, ModelScan

    import torch

    scan = ModelScan(tiny)
    scan.load(prompt)
    ids = np.concatenate([prompt.context, prompt.question, prompt.answer])
    with torch.no_grad():
        logits = tiny(input_ids=torch.from_numpy(ids)[None]).logits[0, -4:-1].double()
    expected = torch.log_softmax(logits, -1).numpy()[np.arange(3), prompt.answer]
    for setting in (FULL, Setting(ratio=0.0), Setting(ratio=0.0, mode="agnostic"),
                    Setting(policy="pool_prerope", block=1, mode="agnostic")):
        assert scan.answer(setting).logp == pytest.approx(expected, abs=1e-4), setting


def test_evicted_tokens_answer_like_a_mask_over_them(tiny, prompt):
    """Evicting the same tokens in every head must equal hiding them from the tail by an attention mask."""
    from kvtide_analysis.model_scan import ModelScan

    import torch

    scan = ModelScan(tiny)
    scan.load(prompt)
    setting = Setting(ratio=0.3, block=32, heads="shared", mode="agnostic")
    for mass in scan.mass["agnostic"]:  # the same choice in both layers
        mass[:] = 1
        mass[:, 64:96] = 0
    ids = np.concatenate([prompt.context, prompt.question, prompt.answer[:-1]])
    count, context = len(ids), len(prompt.context)
    visible = np.tril(np.ones((count, count), bool))
    kept = np.zeros(count, bool)
    kept[kept_tokens(scan.mass["agnostic"][0], setting)[0]] = True
    kept[context:] = True
    visible[context:] &= kept
    mask = torch.where(torch.from_numpy(visible), 0.0, -torch.inf)[None, None]
    with torch.no_grad():
        logits = tiny(input_ids=torch.from_numpy(ids)[None], attention_mask=mask).logits[0, -3:].double()
    expected = torch.log_softmax(logits, -1).numpy()[np.arange(3), prompt.answer]
    assert scan.answer(setting).logp == pytest.approx(expected, abs=1e-4)


def test_free_running_goes_on_from_its_own_token(tiny, prompt):
    from kvtide_analysis.model_scan import FULL, ModelScan

    import torch

    scan = ModelScan(tiny)
    scan.load(prompt)
    answer = scan.answer(FULL)
    ids = torch.from_numpy(np.concatenate([prompt.context, prompt.question]))[None]
    for token in answer.free:
        with torch.no_grad():
            assert int(tiny(input_ids=ids).logits[0, -1].argmax()) == token
        ids = torch.cat([ids, torch.tensor([[token]])], 1)
    assert answer.right_tokens == next((i for i, (a, b) in enumerate(zip(answer.free, prompt.answer)) if a != b), 3)


def test_shared_beginning_is_not_run_again_and_changes_nothing(tiny, prompt):
    from kvtide_analysis.model_scan import ModelScan

    moved = Prompt("grid", 8, np.concatenate([prompt.context[:120], prompt.context[119:]]), prompt.question, prompt.answer, 100)
    setting = Setting(ratio=0.3, block=32)
    after, alone = ModelScan(tiny), ModelScan(tiny)
    after.load(prompt)
    after.load(moved)
    alone.load(moved)
    assert after.answer(setting).logp == pytest.approx(alone.answer(setting).logp, abs=1e-4)


# 210 + 5 + 3 - 1 = 217 tokens lie within 256 of each other; 40 more do not.
def test_layers_that_see_a_window_are_taken_as_long_as_everything_lies_in_it(local, prompt):
    import dataclasses

    from kvtide_analysis import capture
    from kvtide_analysis.model_layers import LayerError
    from kvtide_analysis.model_scan import FULL, ModelScan

    longer = dataclasses.replace(prompt, context=np.concatenate([prompt.context, prompt.context[:40]]))
    scan, recorder = ModelScan(local), capture.Recorder(local)
    scan.load(prompt)
    assert scan.answer(FULL).logp == pytest.approx(scan.answer(Setting(ratio=0.0)).logp, abs=1e-5)
    for refuse in (scan.load, recorder.run):
        with pytest.raises(LayerError, match="257 tokens: the model has layers that see the last 256 only"):
            refuse(longer)


# Groups of one token have their own mean, so that turning back and forth must lead to the keys as they were; those of 16 must agree with
# keys taken before RoPE.
@pytest.mark.parametrize("rope", [
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 128},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
    {"rope_type": "default", "partial_rotary_factor": 0.5}])
def test_pooling_before_rope_turns_by_the_models_own_rope(rope, prompt):
    torch = pytest.importorskip("torch", reason="no torch: models are not run")
    transformers = pytest.importorskip("transformers", reason="no transformers: models are not run")
    from kvtide_analysis.model_scan import FULL, ModelScan

    torch.manual_seed(0)
    config = transformers.PhiConfig(vocab_size=50, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                    num_key_value_heads=2, max_position_embeddings=512, attn_implementation="eager", initializer_range=0.4,
                                    rope_parameters={"rope_theta": 1e4, "partial_rotary_factor": 1.0, **rope})
    model = transformers.PhiForCausalLM(config).eval()
    plain = []
    hook = model.model.layers[0].self_attn.k_proj.register_forward_hook(lambda _, args, out: plain.append(out))
    scan = ModelScan(model)
    scan.load(prompt)
    hook.remove()
    single, pooled = (Setting(policy="pool_prerope", block=block, mode="agnostic") for block in (1, 16))
    scan.require_setting(pooled)
    assert scan.answer(single).logp == pytest.approx(scan.answer(FULL).logp, abs=1e-4)
    keys = torch.cat(plain, 1)[0, 16:32].reshape(16, 2, 8).mean(0)  # [kv_head, channel] before RoPE, tokens 16..31, centre 23.5
    cos, sin = model.model.rotary_emb(torch.zeros(1, 1, 1), torch.tensor([[23.5]]))
    count, half = cos.shape[-1], cos.shape[-1] // 2
    turned = keys.clone()
    turned[:, :half] = keys[:, :half] * cos[0, :, :half] - keys[:, half:count] * sin[0, :, :half]
    turned[:, half:count] = keys[:, half:count] * cos[0, :, :half] + keys[:, :half] * sin[0, :, :half]
    found = scan._compressed(pooled)[0].layers[0].keys[0, :, 16:32]
    assert found.numpy() == pytest.approx(turned[:, None].expand(-1, 16, -1).detach().numpy(), abs=1e-4)


def test_neighbouring_pairs_are_refused_before_anything_is_asked():
    pytest.importorskip("torch", reason="no torch: models are not run")
    from types import SimpleNamespace

    from kvtide_analysis.model_layers import LayerError
    from kvtide_analysis.model_scan import ModelScan

    config = SimpleNamespace(model_type="glm4", num_attention_heads=4, num_key_value_heads=2)
    scan = ModelScan(SimpleNamespace(config=SimpleNamespace(get_text_config=lambda: config)))
    scan.require_setting(Setting(policy="pool_postrope"))
    with pytest.raises(LayerError, match="channels 2i and 2i"):
        scan.require_setting(Setting(policy="pool_prerope"))


def test_scaled_rope_is_refused():
    from types import SimpleNamespace

    from kvtide_analysis.model_layers import LayerError, rope_bases

    assert rope_bases(SimpleNamespace(num_hidden_layers=2, rope_theta=5e5)) == [5e5, 5e5]
    for wrong in ({"rope_scaling": {"type": "linear"}}, {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}):
        with pytest.raises(LayerError, match="rope_type (linear|yarn)"):
            rope_bases(SimpleNamespace(num_hidden_layers=2, **wrong))
    with pytest.raises(LayerError, match="partial_rotary_factor"):
        rope_bases(SimpleNamespace(num_hidden_layers=2, partial_rotary_factor=0.5))


@pytest.mark.parametrize("name", ["tiny", "local"])
def test_captured_trace_reproduces_the_models_own_attention(name, prompt, tmp_path, request):
    h5py = pytest.importorskip("h5py")
    from kvtide_analysis import capture

    tiny = request.getfixturevalue(name)
    recorder = capture.Recorder(tiny)
    outputs = {}
    hooks = [layer.self_attn.o_proj.register_forward_pre_hook(lambda _, args, index=index: outputs.__setitem__(index, args[0][0].numpy()))
             for index, layer in enumerate(tiny.model.layers)]
    logits, record = recorder.run(prompt)
    for hook in hooks:
        hook.remove()
    path = str(tmp_path / "trace.h5")
    capture.write_trace(path, recorder, prompt, logits, record, "tiny")
    with h5py.File(path) as file:
        count = file.attrs["n_tokens"]
        thetas = file["layer_rope_theta"][:] if name == "local" else [file.attrs["rope_theta"]] * 2
        turn = lambda x, rows: x * cos[rows] + np.concatenate([-x[..., 4:], x[..., :4]], -1) * sin[rows]
        for layer, theta in enumerate(thetas):
            angles = np.arange(count)[:, None] * theta ** (-np.arange(0, 8, 2) / 8)
            cos, sin = np.tile(np.cos(angles), 2), np.tile(np.sin(angles), 2)
            group = file[f"layer_{layer:02d}"]
            rows = group["q_positions"][:]
            q, k, v = turn(group["q_pre"][:], rows), turn(group["k_pre"][:], np.arange(count)), group["v"][:]
            for head in range(4):
                scores = q[head] @ k[head // 2].T * file.attrs["attn_scale"]
                scores[rows[:, None] < np.arange(count)] = -np.inf
                weights = np.exp(scores - scores.max(-1, keepdims=True))
                out = weights / weights.sum(-1, keepdims=True) @ v[head // 2]
                assert out == pytest.approx(outputs[layer][rows, head * 8:head * 8 + 8], abs=1e-4)


def test_scan_model_writes_rows_scans_and_passes_its_own_prompts_on(tiny, prompt, tmp_path, monkeypatch):
    from kvtide_analysis import capture

    monkeypatch.setattr(capture, "load_model", lambda name, **options: tiny)
    prompts = str(tmp_path / "prompts.h5")
    write_prompts(prompts, [prompt], "tiny")
    out = tmp_path / "out"
    assert cli.main(["scan-model", prompts, "--model", "tiny", "--policy", "evict,int2", "--ratio", "0.25,0.5", "--measure", "score", "-o",
                     str(out)]) == 0
    rows = (out / "rows.csv").read_text().splitlines()
    assert len(rows) == 1 + 3 and rows[0].startswith("probe_start,context_len,answer_start,mode,policy")
    assert sorted(path.name for path in out.iterdir()) == ["rows.csv", "scan-aware-evict-64-0.25-head.csv",
                                                           "scan-aware-evict-64-0.5-head.csv",
                                                           "scan-aware-int2-64.csv"]
    assert cli.main(["scan-model", prompts, "--only", "grid:8", "-o", str(out)]) == 2
    assert cli.main(["capture", prompts, "-o", str(out)]) == 0 and (out / "grid-7.h5").exists()
