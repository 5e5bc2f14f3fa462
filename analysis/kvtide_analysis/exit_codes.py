"""A command's outcome as the exit code that kvtide uses: 0 done, 2 wrong usage or input, 3 environment, 130 interrupted."""

from __future__ import annotations

import argparse
import sys


class InputError(Exception):
    """Wrong usage or a wrong input file, a missing one too; the text says what was found and what is expected."""


def exit_code(options: argparse.Namespace) -> int:
    """Runs `options.handler`; an error is one line on stderr."""
    try:
        return options.handler(options)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
