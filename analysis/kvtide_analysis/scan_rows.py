"""Rows of a scan under way: kept on disk from the first answer, gone on from when the scan was interrupted."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import sys

from .exit_codes import InputError
from .output_file import is_stream


class ScanRows:
    """OUTPUT.partial: a CSV of the scan's columns and two more, `place` (which row it is) and `scan` (of which scan, hashed).

    Outputs are written from `rows` when the scan is complete, so that what an earlier scan left is never lost to one that fails.
    As a context: closes the file at the end; where that is not complete, the rows stay and a line on stderr tells where.

    scan: what decides the rows but not which of them there are; rows of another scan are refused.
    """

    def __init__(self, output: str, columns: list[str], scan: dict, resume: bool):
        self.partial = None if is_stream(output) else output + ".partial"
        self.rows: dict[str, dict[str, str]] = {}
        self._columns = [*columns, "place", "scan"]
        self._key = hashlib.sha256(json.dumps(scan, sort_keys=True, default=str).encode()).hexdigest()[:12]
        self._file = None
        if self.partial is None:
            return
        if os.path.exists(self.partial):
            if not resume:
                raise InputError(f"{self.partial}: holds the rows of an unfinished scan: --resume goes on from them; or remove it")
            self._read()
        self._file = open(self.partial, "a", newline="", encoding="utf-8")
        self._writer = csv.DictWriter(self._file, self._columns, lineterminator="\n")
        if not self._file.tell():
            self._writer.writeheader()

    def _read(self) -> None:
        with open(self.partial, "rb") as file:
            content = file.read()
        whole = content.rfind(b"\n") + 1
        header = (",".join(self._columns) + "\n").encode()
        reader = csv.DictReader(io.StringIO(content[:whole].decode("utf-8", "replace")))
        # Of a header that was cut short there is only its beginning.
        if not (reader.fieldnames == self._columns if whole else header.startswith(content)):
            raise InputError(f"{self.partial}: holds the rows of another scan (its columns differ); remove it, or give another -o")
        for row in reader:
            if row["scan"] != self._key:
                raise InputError(f"{self.partial}: holds the rows of another scan; remove it, or give another -o")
            self.rows[row["place"]] = row
        os.truncate(self.partial, whole)  # a line that was cut short is asked again

    def add(self, place: str, row: dict) -> None:
        """On disk at once."""
        self.rows[place] = {**row, "place": place, "scan": self._key}
        if self._file is not None:
            self._writer.writerow(self.rows[place])
            self._file.flush()

    def complete(self) -> None:
        """The outputs are written: the partial file goes."""
        if self.partial is not None:
            os.unlink(self.partial)
            self.partial = None

    def __enter__(self) -> ScanRows:
        return self

    def __exit__(self, *_) -> None:
        if self._file is not None:
            self._file.close()
        if self.partial is None:
            return
        if self.rows:
            print(f"{self.partial}: {len(self.rows)} rows are kept; --resume goes on from them", file=sys.stderr)
        else:
            os.unlink(self.partial)


def csv_bytes(columns: list[str], rows) -> bytes:
    """rows: mappings; what they hold beside the columns is left out."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode("utf-8")
