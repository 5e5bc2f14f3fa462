"""Commands that run a real model: `capture`. They need torch and transformers, which pictures and reports do not."""

from __future__ import annotations

import argparse
import os
import sys
import time

from . import capture as recording

COMMANDS = ("capture",)
AHEAD = 2  # traces that may wait to be taken before the next is made


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="kvtide_analysis", allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    capture = commands.add_parser("capture", allow_abbrev=False, help="record a model's queries, keys and values as traces",
                                  formatter_class=argparse.RawDescriptionHelpFormatter, epilog="""examples:
  kvtide_analysis capture real-scan-prompts.h5 --only prefix:0 -o traces/
  kvtide_analysis capture my-prompts.h5 --model path/to/model -o traces/""")
    capture.add_argument("prompts", metavar="PROMPTS.h5", help="contexts, question and answer as token ids")
    capture.add_argument("--model", default=recording.SMOLLM2, help="a folder, a .gguf file, or smollm2 (the default)")
    capture.add_argument("--only", metavar="SCAN:KEY,...", help="these prompts (default: all)")
    capture.add_argument("--dtype", choices=["float16", "float32"], default="float32")
    capture.add_argument("--wait", action="store_true", help=f"keep at most {AHEAD} files there: somebody takes them away")
    capture.add_argument("-o", "--output", required=True, metavar="FOLDER")
    capture.set_defaults(handler=_capture)
    options = parser.parse_args(arguments)
    try:
        return options.handler(options)
    except recording.CaptureError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 3


def _capture(options: argparse.Namespace) -> int:
    prompts = recording.read_prompts(options.prompts)
    names = options.only.split(",") if options.only else list(prompts)
    unknown = [name for name in names if name not in prompts]
    if unknown:
        raise recording.CaptureError(f"{options.prompts} holds no prompt {unknown[0]}; the first is {next(iter(prompts), 'none')}")
    os.makedirs(options.output, exist_ok=True)
    recorder = recording.Recorder(recording.load_model(options.model))
    waiting: list[str] = []
    for name in names:
        while options.wait and len(waiting) >= AHEAD:
            waiting = [path for path in waiting if os.path.exists(path)]
            time.sleep(0.01)
        prompt = prompts[name]
        logits, record = recorder.run(prompt)
        path = os.path.join(options.output, f"{prompt.scan}-{prompt.key}.h5")
        recording.write_trace(path, recorder, prompt, logits, record, options.model, options.dtype)
        waiting.append(path)
        print(f"{name} {path}", flush=True)
    return 0
