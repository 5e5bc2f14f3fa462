"""Writes a file whole or not at all, and never over what it was made from."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile

from .exit_codes import InputError


def is_stream(path: str) -> bool:
    """/dev/stdout, a pipe, a terminal: what a rename would put a file in the place of. A redirected /dev/stdout is one too."""
    try:
        found, standard = os.stat(path), os.fstat(1)
    except OSError:
        return False
    is_replaceable = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
    return not is_replaceable or os.path.samestat(found, standard)


def require_other_than(output: str, inputs: list[str]) -> None:
    """@raise InputError  where the output is one of the inputs, by whatever name"""
    for name in inputs:
        if os.path.exists(output) and os.path.exists(name) and os.path.samefile(output, name):
            raise InputError(f"-o {output}: is the input itself; give the output another name")


def write_whole(path: str, content: bytes) -> None:
    """A partial file in the same folder is renamed at the end. A stream is written as it is."""
    if is_stream(path):
        with open(path, "wb") as stream:
            stream.write(content)
        return
    handle, partial = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=os.path.basename(path) + ".partial-")
    try:
        file = os.fdopen(handle, "wb")
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        with contextlib.suppress(InterruptedError):  # closed all the same, and what was written is on the disk
            file.close()
        os.chmod(partial, 0o666 & ~_umask())
        _replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def _replace(source: str, target: str) -> None:
    """os.replace, again where a signal interrupts it: Python does so for reads and writes alone."""
    while True:
        try:
            os.replace(source, target)
            return
        except InterruptedError:
            continue


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
