"""Positions that kvpress keeps on a recorded trace, in the layout that `kvtide validate kept` and `scorer: file` read.

    python kvpress_kept.py TRACE.h5 COMPANION.h5 OUT.h5 [--press NAME ...]

Then: kvtide validate kept TRACE.h5 COMPANION.h5 OUT.h5 [-o summary.csv]. Keys, values and queries are the recorded ones.
Needs kvpress 0.5.5, torch and transformers (a virtual environment of its own). To bring a method of your own, add a line to
METHODS: what makes the press for a share removed, and the class and parameters that its file entry names.
"""

import argparse
import json
from importlib import metadata

import h5py
import kvpress
import numpy as np
import torch
from kvpress_speed import load

RATIOS = [0.25, 0.5, 0.75]
EXPECTED = {"class": "ExpectedAttentionPress", "n_future_positions": 512, "n_sink": 4, "use_covariance": True,
            "use_vnorm": True, "epsilon": 0.0}
METHODS = {
    "LagKV": (lambda removed: kvpress.LagKVPress(removed),
              {"class": "LagKVPress", "n_sink": 4, "lag_size": 128, "cross_scoring": False}),
    "LagKV_cross": (lambda removed: kvpress.LagKVPress(removed, cross_scoring=True),
                    {"class": "LagKVPress", "n_sink": 4, "lag_size": 128, "cross_scoring": True}),
    "CUR": (lambda removed: kvpress.CURPress(removed),
            {"class": "CURPress", "num_sinks": 4, "leverage_type": "kv_product", "use_random_leverage": False,
             "use_local_approximation": True, "local_window_size": 16}),
    "ExpectedAttention": (lambda removed: kvpress.ExpectedAttentionPress(removed), EXPECTED),
    "ExpectedAttention_mean": (lambda removed: kvpress.ExpectedAttentionPress(removed, use_covariance=False),
                               EXPECTED | {"use_covariance": False}),
    "AdaKV_ExpectedAttention": (lambda removed: kvpress.AdaKVPress(kvpress.ExpectedAttentionPress(removed, epsilon=1e-2)),
                                {"class": "AdaKVPress", "press": EXPECTED | {"epsilon": 1e-2}, "alpha_safeguard": 0.2}),
}


def kept_by(press, layer, removed):
    """Mask [kv_head, token] and, of a press that scores, its scores."""
    module, hidden, keys, values, cos, sin = layer
    keywords = {"hidden_states": hidden, "position_embeddings": (cos, sin)}
    heads, tokens = keys.shape[1], keys.shape[2]
    if isinstance(press, kvpress.AdaKVPress):  # removes nothing: names what it would
        module.masked_key_indices = None
        press.compress(module, hidden, keys, values, None, keywords)
        _, head, token = module.masked_key_indices
        kept = np.ones((heads, tokens), np.uint8)
        kept[head.numpy(), token.numpy()] = 0
        return kept, None
    scores = press.score(module, hidden, keys, values, None, keywords)[0]
    kept = np.zeros((heads, tokens), np.uint8)
    best = scores.topk(max(1, int(tokens * (1 - removed))), dim=-1).indices.numpy()
    np.put_along_axis(kept, best, 1, axis=1)
    return kept, scores.numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("companion")
    parser.add_argument("out")
    parser.add_argument("--press", nargs="*")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    layers = load(arguments.trace, arguments.companion)
    with torch.no_grad(), h5py.File(arguments.out, "w") as out, h5py.File(arguments.trace) as trace:
        out.attrs["layers"] = trace["layers"][:]
        out.attrs["ratios"] = RATIOS
        out.attrs["kvpress"] = metadata.version("kvpress")
        for name, (make, parameters) in METHODS.items():
            if arguments.press and name not in arguments.press:
                continue
            made = [[kept_by(make(removed), layer, removed) for removed in RATIOS] for layer in layers]
            group = out.create_group(name)
            group.attrs["params"] = json.dumps(parameters)
            group["kept"] = np.stack([np.stack([kept for kept, _ in of_layer]) for of_layer in made])
            if made[0][1][1] is not None:
                group["scores"] = np.stack([of_layer[1][1] for of_layer in made]).astype(np.float32)


if __name__ == "__main__":
    main()
