"""What a config says of its layers, from configs written out by hand after those of the models."""

from types import SimpleNamespace

import pytest
from kvtide_analysis.model_layers import LayerError, has_rope, layer_types, require_plain_scores, require_within_window, rope_bases


def config(**keys):
    return SimpleNamespace(**{"num_hidden_layers": 4, "rope_theta": 1e4, **keys})


def test_layers_without_rope_are_not_turned():
    # SmolLM3: 1 has RoPE, 0 has none, every fourth layer.
    assert rope_bases(config(model_type="smollm3", rope_theta=5e6, no_rope_layers=[1, 1, 1, 0])) == [5e6, 5e6, 5e6, 0]
    assert rope_bases(config(no_rope_layers=None)) == [1e4] * 4
    # Scaled, so that a trace is refused: whether a layer is turned is known all the same.
    assert has_rope(config(rope_parameters={"rope_type": "llama3", "rope_theta": 5e5})) == [True] * 4
    assert has_rope(config(rope_scaling={"type": "yarn"}, no_rope_layers=[1, 0, 1, 0])) == [True, False, True, False]
    hybrid = ["sliding_attention", "full_attention"] * 2
    assert rope_bases(config(model_type="exaone4", sliding_window=4096, layer_types=hybrid)) == [1e4, 0, 1e4, 0]
    assert rope_bases(config(model_type="exaone4", sliding_window=None)) == [1e4] * 4


def test_window_without_layer_types_is_that_of_all_layers():
    mistral = config(model_type="mistral", sliding_window=4096)
    assert layer_types(mistral) == ["sliding_attention"] * 4
    require_within_window(mistral, 4096)
    with pytest.raises(LayerError, match="4097 tokens: the model has layers that see the last 4096 only"):
        require_within_window(mistral, 4097)
    for full in (config(sliding_window=None), config(sliding_window=4096, use_sliding_window=False),
                 config(sliding_window=4096, layer_types=["full_attention"] * 4), config()):
        require_within_window(full, 1 << 20)


@pytest.mark.parametrize("model_type", ["cohere", "cohere2_moe", "glm4", "ernie4_5", "llama4_text"])
def test_interleaved_rope_is_refused(model_type):
    with pytest.raises(LayerError, match="channels 2i and 2i"):
        rope_bases(config(model_type=model_type))


def test_capped_scores_and_other_codings_of_positions_are_refused():
    with pytest.raises(LayerError, match="attn_logit_softcapping 50"):
        require_plain_scores(config(model_type="gemma2", attn_logit_softcapping=50.0))
    require_plain_scores(config(model_type="gemma3_text", attn_logit_softcapping=None))
    with pytest.raises(LayerError, match="no rope_theta"):
        rope_bases(config(model_type="opt", rope_theta=None))
