"""A command's outcome as the exit code that kvtide uses: 0 done, 2 wrong usage or input, 3 environment."""

from __future__ import annotations

import argparse
import sys


def exit_code(options: argparse.Namespace, input_error: type[Exception]) -> int:
    """Runs `options.handler`; an error is one line on stderr. @param input_error  what the command raises for wrong input"""
    try:
        return options.handler(options)
    except input_error as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
