#!/usr/bin/env python3
"""Cut a few layers of a recorded research trace into kvtide's own trace layout.

    cut_trace.py SOURCE.h5 OUT.h5 [--layers 9 18] [--queries 256] [--companion MORE.h5]

The decode tokens are appended to the prompt, so that positions run through. Checks of an implementation come along: rotated
queries and the model's attention output for the last 32 prompt queries, and rotated keys of the last 256 prompt positions
where the source has them. With a companion file, the output projection of each layer, too.
"""

import argparse

import h5py
import numpy as np

TEXT = h5py.string_dtype("utf-8")


def put(group, name, values, long_name, units="1", chunks=None):
    """A dataset without time stamps, so that equal input gives equal bytes."""
    options = {"track_times": False}
    if chunks is not None:
        options.update(chunks=chunks, shuffle=True, compression="gzip", compression_opts=9)
    dataset = group.create_dataset(name, data=values, **options)
    dataset.attrs["long_name"] = long_name
    dataset.attrs["units"] = units


def tensor(group, name, values, long_name):
    """[head, row, channel]; one head and 16 channels a chunk: channels of a head resemble each other most."""
    heads, rows, channels = values.shape
    put(group, name, values.astype(np.float16), long_name, chunks=(1, min(rows, 512), min(channels, 16)))


def cut_layer(source, out, layer, num_queries, companion=None):
    name = f"layer_{layer:02d}"
    recorded, decode = source[name], source["decode"][name]
    group = out.create_group(name)
    for part, text in (("k_pre", "keys before RoPE"), ("v", "values")):
        joined = np.concatenate([recorded[part][()], decode[part][()]], axis=1)
        tensor(group, part, joined, f"{text} [kv_head, token, channel]")
    queries = recorded["q_pre_all" if "q_pre_all" in recorded else "q_pre_last256"][:, -num_queries:]
    joined = np.concatenate([queries, decode["q_pre"][()]], axis=1)
    tensor(group, "q_pre", joined, "queries before RoPE [q_head, query, channel]")
    end = int(source.attrs["n_tokens"]) + decode["q_pre"].shape[1]
    put(group, "q_positions", np.arange(end - joined.shape[1], end, dtype=np.int64), "position of each query", "token")
    tensor(group, "q_post_last32", recorded["q_post_last32"][()], "queries after RoPE, last 32 prompt positions")
    tensor(group, "attn_out_last32", recorded["attn_out_last32"][()],
           "attention output of the model before o_proj, last 32 prompt positions [q_head, query, channel]")
    tensor(group, "attn_out_decode", decode["attn_out"][()],
           "attention output of the model before o_proj, the answer tokens [q_head, query, channel]")
    if companion is not None:
        put(group, "w_o", companion[name]["w_o"][()].astype(np.float16), "output projection [model channel, q_head * channel]",
            chunks=(64, 576))
    if "k_post" in recorded:
        tensor(group, "k_post_last256", recorded["k_post"][:, -256:], "keys after RoPE, last 256 prompt positions")


def cut(source, out, layers, num_queries, companion=None):
    n_prompt, n_context = int(source.attrs["n_tokens"]), int(source.attrs["n_context"])
    n_decode = int(source.attrs["n_decode"])
    out.attrs["format"] = "kvtide-trace-1"
    out.attrs["title"] = "Recorded attention of SmolLM2-135M-Instruct: four access codes in 2,021 tokens of context"
    for name in ("model", "n_layers_model", "n_q_heads", "n_kv_heads", "head_dim", "rope_theta", "attn_scale"):
        out.attrs[name] = source.attrs[name]
    out.attrs["n_context"] = n_context
    out.attrs["n_tokens"] = n_prompt + n_decode
    out.attrs["question"] = np.array([n_context, n_prompt - 1], dtype=np.int64)
    out.attrs["answer"] = np.array([n_prompt - 1, n_prompt + n_decode - 2], dtype=np.int64)
    out.attrs["license"] = "tensors: Apache-2.0, from SmolLM2-135M-Instruct; text: synthetic, written for this purpose"
    put(out, "layers", np.array(layers, dtype=np.int64), "recorded model layers")

    tokens = out.create_group("tokens")
    ids = np.concatenate([source["tokens/ids"][()], source["decode/ids"][()]]).astype(np.int64)
    put(tokens, "ids", ids, "token ids")
    answer = source["probes"].attrs["answer"]
    strings = [text.decode() for text in source["tokens/strings"][()]] + list(answer)
    put(tokens, "strings", np.array(strings, dtype=TEXT), "decoded tokens")

    probes = out.create_group("probes")
    probes.attrs["asked"] = source["probes"].attrs["asked"]
    probes.attrs["answer"] = answer
    for name in ("noun", "code"):
        put(probes, name, np.array([text.decode() for text in source["probes"][name][()]], dtype=TEXT), name)
    put(probes, "start", source["probes/start"][()].astype(np.int64), "first token of the fact", "token")
    put(probes, "length", source["probes/length"][()].astype(np.int64), "tokens of the fact", "token")
    put(probes, "digit_positions", source["probes/digit_positions"][()].astype(np.int64), "tokens of the code", "token")
    put(probes, "answer_logp_full", source["probes/answer_logp_full"][()], "log-probability of each digit, full cache")

    for layer in layers:
        cut_layer(source, out, layer, num_queries, companion)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("out")
    parser.add_argument("--layers", type=int, nargs="+", default=[9, 18])
    parser.add_argument("--queries", type=int, default=256, help="last prompt queries to keep (all: the prompt's length)")
    parser.add_argument("--companion", help="file with the layers' output projections w_o")
    arguments = parser.parse_args()
    with h5py.File(arguments.source, "r") as source, h5py.File(arguments.out, "w") as out:
        if arguments.companion is None:
            cut(source, out, arguments.layers, arguments.queries)
        else:
            with h5py.File(arguments.companion, "r") as companion:
                cut(source, out, arguments.layers, arguments.queries, companion)


if __name__ == "__main__":
    main()
