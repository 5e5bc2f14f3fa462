"""Commands that run or ask a real model: `capture`, `scan-model` (torch, transformers), `scan-endpoint` (nothing but Python)."""

from __future__ import annotations

import argparse
import os
import sys
import time

from . import scan_options
from .exit_codes import InputError

AHEAD = 2  # traces that may wait to be taken before the next is made
SMOLLM2 = "smollm2"
MODEL_HELP = "a folder, a .gguf file, or smollm2 (the default)"


def add_commands(commands) -> None:
    """@param commands  what ArgumentParser.add_subparsers() gave"""
    raw = argparse.RawDescriptionHelpFormatter

    capture = commands.add_parser("capture", allow_abbrev=False, help="record a model's queries, keys and values as traces",
                                  formatter_class=raw, epilog="""examples:
  kvtide_analysis capture real-scan-prompts.h5 --only prefix:0 -o traces/
  kvtide_analysis capture my-prompts.h5 --model path/to/model -o traces/""")
    capture.add_argument("prompts", metavar="PROMPTS.h5", help="contexts, question and answer as token ids")
    capture.add_argument("--model", default=SMOLLM2, help=MODEL_HELP)
    capture.add_argument("--only", metavar="SCAN:KEY,...", help="these prompts (default: all)")
    capture.add_argument("--dtype", choices=["float16", "float32"], default="float32")
    capture.add_argument("--wait", action="store_true", help=f"keep at most {AHEAD} files there: somebody takes them away")
    capture.add_argument("-o", "--output", required=True, metavar="FOLDER")
    capture.set_defaults(handler=_capture)

    model = commands.add_parser("scan-model", allow_abbrev=False, help="ask a model with a compressed cache, place by place",
                                formatter_class=raw,
                                description="Writes FOLDER/prompts.h5 (for capture), rows.csv (for kvtide validate scan) and one "
                                "scan-SETTING.csv a setting (for kvtide diagnose). Without PROMPTS.h5 the texts are made up.",
                                epilog="""examples:
  kvtide_analysis scan-model --scan prefix --step 2 --count 65 --ratio 0.5,0.75 -o scan/
  kvtide_analysis scan-model --model path/to/model --scan position --text code --probe keyword --policy evict,int2 -o scan/""")
    model.add_argument("prompts", nargs="?", metavar="PROMPTS.h5", help="ask these instead of made-up texts")
    model.add_argument("--model", default=SMOLLM2, help=MODEL_HELP)
    model.add_argument("--only", metavar="SCAN:KEY,...", help="of PROMPTS.h5, these (default: all)")
    scan_options.add_options(model)
    scan_options.add_settings(model)
    model.add_argument("--measure", choices=["logprob", "correct", "score"], default="logprob",
                       help="of scan-SETTING.csv (default: logprob); "
                       "score: share of the answer's tokens that are right before the first wrong one")
    model.add_argument("--axis", choices=["tokens", "chars"], default="tokens", help="unit of prefix scans in scan-SETTING.csv")
    model.add_argument("--resume", action="store_true", help="go on from the rows of an interrupted scan")
    model.add_argument("-o", "--output", required=True, metavar="FOLDER")
    model.set_defaults(handler=_scan_model)

    endpoint = commands.add_parser("scan-endpoint", allow_abbrev=False, help="ask an OpenAI-compatible server, place by place",
                                   formatter_class=raw,
                                   description="Writes a CSV for kvtide diagnose. The key is read from the environment. Lengths are "
                                   "characters: what a client can count.", epilog="""examples:
  kvtide_analysis scan-endpoint http://localhost:8000 --model my-model --step 8 --count 64 -o scan.csv
  kvtide_analysis scan-endpoint http://localhost:8000 --model my-model --scan position --probe factual,keyword --control -o scan.csv""")
    endpoint.add_argument("url", metavar="URL", help="of the server, with or without /v1")
    endpoint.add_argument("--model", required=True, help="the name the server knows it by")
    endpoint.add_argument("--scan", choices=["position", "prefix"], default="prefix")
    endpoint.add_argument("--text", default="report", metavar="KIND,...")
    endpoint.add_argument("--probe", default="factual", metavar="KIND,...")
    endpoint.add_argument("--seed", type=int, default=0)
    endpoint.add_argument("--characters", type=scan_options.count, default=4000, metavar="N", help="of the text (default 4000)")
    endpoint.add_argument("--start", type=int, default=1200, metavar="N", help="first place of the fact (default 1200)")
    endpoint.add_argument("--step", type=scan_options.count, default=8, metavar="N", help="characters between two places (default 8)")
    endpoint.add_argument("--count", type=scan_options.count, default=64, metavar="N", help="places (default 64)")
    endpoint.add_argument("--repeat", type=scan_options.count, default=1, metavar="N", help="requests a place (default 1)")
    endpoint.add_argument("--measure", choices=["score", "correct", "logprob"], default="score",
                          help="logprob asks the server to repeat the prompt with its log-probabilities (echo)")
    endpoint.add_argument("--baseline-url", metavar="URL", help="the same model without compression")
    endpoint.add_argument("--control", action="store_true", help="also ask with the fact removed")
    endpoint.add_argument("--chat", action="store_true", help="use /v1/chat/completions")
    endpoint.add_argument("--characters-per-token", type=scan_options.per_token, metavar="X",
                          help="for positions, where the server does not count tokens")
    endpoint.add_argument("--timeout", type=scan_options.seconds, default=60, metavar="SECONDS", help="for one answer (default 60)")
    endpoint.add_argument("--retries", type=scan_options.retries, default=4, metavar="N",
                          help="after a failure for want of the server (default 4)")
    endpoint.add_argument("--key-variable", default="OPENAI_API_KEY", metavar="NAME", help="environment variable that holds the key")
    endpoint.add_argument("--resume", action="store_true", help="go on from the rows of an interrupted scan")
    endpoint.add_argument("-o", "--output", required=True, metavar="SCAN.csv")
    endpoint.set_defaults(handler=_scan_endpoint)


def _selected(path: str, only: str | None) -> list:
    from .prompts import read_prompts

    prompts = read_prompts(path)
    names = only.split(",") if only else list(prompts)
    for name in names:
        if name not in prompts:
            raise InputError(f"{path} holds no prompt {name}; the first is {next(iter(prompts), 'none')}")
    return [prompts[name] for name in names]


def _capture(options: argparse.Namespace) -> int:
    from . import capture as recording

    prompts = _selected(options.prompts, options.only)
    os.makedirs(options.output, exist_ok=True)
    recorder = recording.Recorder(recording.load_model(options.model))
    waiting: list[str] = []
    for prompt in prompts:
        while options.wait and len(waiting) >= AHEAD:
            waiting = [path for path in waiting if os.path.exists(path)]
            time.sleep(0.01)
        logits, record = recorder.run(prompt)
        path = os.path.join(options.output, f"{prompt.scan}-{prompt.key}.h5")
        recording.write_trace(path, recorder, prompt, logits, record, options.model, options.dtype)
        waiting.append(path)
        print(f"{prompt.name} {path}", flush=True)
    return 0


def _scan_model(options: argparse.Namespace) -> int:
    from . import capture as recording
    from . import scan_plan
    from .model_scan import FULL, ROW_COLUMNS, ModelScan, row_of
    from .prompts import write_prompts
    from .scan_rows import ScanRows

    settings = scan_plan.settings_of(options)
    if options.prompts:
        places = [scan_plan.Place(prompt, prompt.key, 0) for prompt in _selected(options.prompts, options.only)]
    else:
        places = scan_plan.places(options, recording.load_tokenizer(options.model))
    scan_kind = options.scan
    if options.prompts:
        if options.axis == "chars":
            raise InputError("--axis chars counts characters of made-up texts: leave it out with a file of prompts")
        if all(place.prompt.scan.startswith("position") for place in places):
            scan_kind = "position"
    moves = "position" if scan_kind == "position" else "prefix_chars" if options.axis == "chars" else "prefix_tokens"
    scan = ModelScan(recording.load_model(options.model, attn_implementation="eager"))
    for place in places:
        scan.require(place.prompt)
    for setting in settings:
        scan.require_setting(setting)
    os.makedirs(options.output, exist_ok=True)
    scan_columns = [moves, options.measure, "baseline", "probe_type", "tokens"]
    with ScanRows(os.path.join(options.output, "rows.csv"), [*ROW_COLUMNS, "label", *scan_columns],
                  {"model": options.model, "moves": moves, "measure": options.measure}, options.resume) as rows:
        planned = []
        for number, place in enumerate(places, 1):
            prompt = place.prompt
            every = [(setting, shift, f"{prompt.name} {prompt.digest} {setting.label} {shift}")
                     for setting in settings for shift in place.shifts]
            planned += [key for _, _, key in every]
            missing = [one for one in every if one[2] not in rows.rows]
            if missing:
                scan.load(prompt)
                full = scan.answer(FULL)
            for setting, shift, key in missing:
                moved = scan_plan.moved(setting, shift)
                answer = scan.answer(moved)
                measured, baseline = ((float(one.logp.sum()), float(one.is_exact), one.right_tokens / len(one.logp))
                                      [("logprob", "correct", "score").index(options.measure)] for one in (answer, full))
                in_characters = options.axis == "chars" and moves == "prefix_chars"
                at = shift if len(place.shifts) > 1 else place.characters if in_characters else place.at
                rows.add(key, {**row_of(prompt, moved, full, answer), "label": setting.label, moves: at, options.measure: f"{measured:.6g}",
                               "baseline": f"{baseline:.6g}", "probe_type": prompt.kind or "prompt",
                               "tokens": len(prompt.context) + len(prompt.question)})
            print(f"{number}/{len(places)} {prompt.name} {prompt.kind}", file=sys.stderr, flush=True)
        if not options.prompts:
            write_prompts(os.path.join(options.output, "prompts.h5"), [place.prompt for place in places], options.model)
        for path in _write_scans(options.output, ROW_COLUMNS, scan_columns, [rows.rows[key] for key in planned]):
            print(path)
        rows.complete()
    return 0


def _write_scans(folder: str, row_columns, scan_columns: list[str], rows: list[dict]) -> list[str]:
    """rows.csv for kvtide validate scan, a scan-SETTING.csv a setting for kvtide diagnose. @return their paths"""
    from .output_file import write_whole
    from .scan_rows import csv_bytes

    paths = [os.path.join(folder, "rows.csv")]
    write_whole(paths[0], csv_bytes(list(row_columns), rows))
    for label in dict.fromkeys(row["label"] for row in rows):
        paths.append(os.path.join(folder, f"scan-{label}.csv"))
        write_whole(paths[-1], csv_bytes(scan_columns, [row for row in rows if row["label"] == label]))
    return paths


def _scan_endpoint(options: argparse.Namespace) -> int:
    from .endpoint import Endpoint
    from .endpoint_scan import scan_endpoint

    def server(url: str) -> Endpoint:
        return Endpoint(url, options.model, chat=options.chat, timeout=options.timeout, retries=options.retries,
                        key_variable=options.key_variable)

    rows = scan_endpoint(server(options.url), server(options.baseline_url) if options.baseline_url else None, options)
    print(f"{options.output}: {rows} rows")
    return 0
