"""clang-tidy by the checked-in .clang-tidy over rooms: python3 cmake/run_clang_tidy.py [ROOM...] [--tests].

The files of a room are read as one translation unit, so that its headers are parsed once: minutes for the whole project instead of an hour.
Files whose private names collide in it are read again, each alone. Exit code 1 where something is found. Written for clang-tidy 14 (Debian
12): later ones know more checks.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
SIM = SOURCE / "sim"
FLAGS = ["-std=c++20", f"-I{SIM}", "-I/usr/include/eigen3", "-I/usr/include/hdf5/serial", "-DNDEBUG", "-ferror-limit=0",
         *(f'-DKVTIDE_{name}="x"' for name in ("BUILT_FROM", "VERSION", "SOURCE_DIR", "BINARY_DIR", "BUILD", "YAML_CPP_VERSION"))]
COLLISION = re.compile(r"/sim/(\S+?\.cc):\d+:\d+: error: .*\[clang-diagnostic-error\]")
# An attribute that comes after a definition does so only in the joined unit.
FINDING = re.compile(r"/sim/\S+?:\d+:\d+: (?:error|warning): (?!.*\[clang-diagnostic-(?:error|ignored-attributes)[],]).*")


def files_of(room: str, tests: bool) -> list[str]:
    def is_wanted(path):
        return path.name.endswith("_test.cc") == tests and not path.name.endswith(("_bench.cc", "_main.cc"))
    return [str(path.relative_to(SIM)) for path in sorted((SIM / room).rglob("*.cc")) if is_wanted(path)]


def tidy(files: list[str], folder: str) -> str:
    unit = pathlib.Path(folder) / "unit.cc"
    unit.write_text("".join(f'#include "{name}"\n' for name in files))
    command = ["clang-tidy", "--quiet", f"--config-file={SOURCE / '.clang-tidy'}", "--checks=-bugprone-suspicious-include", str(unit), "--",
               *FLAGS]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout


def findings_of(room: str, tests: bool) -> tuple[list[str], list[str]]:
    """Findings, and the files that could not be read."""
    files, found, unread = files_of(room, tests), set(), []
    with tempfile.TemporaryDirectory() as folder:
        said = tidy(files, folder) if files else ""
        for name in sorted(set(COLLISION.findall(said)) & set(files)):
            alone = tidy([name], folder)
            if COLLISION.search(alone):
                unread.append(name)
            said += alone
        found |= {line for line in said.splitlines() if FINDING.search(line)}
    return sorted(found), unread


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help="folders of sim/ (default: all)")
    parser.add_argument("--tests", action="store_true", help="the rooms' tests instead of their sources")
    arguments = parser.parse_args()
    rooms = arguments.rooms or sorted(path.name for path in SIM.iterdir() if path.is_dir())
    unknown = [room for room in rooms if not (SIM / room).is_dir()]
    if unknown:
        parser.error(f"no room {unknown[0]} in sim/")
    total = 0
    for room in rooms:
        found, unread = findings_of(room, arguments.tests)
        total += len(found) + len(unread)
        print(f"{room}: {len(found)} findings" + (f", not read: {', '.join(unread)}" if unread else ""), flush=True)
        for line in found:
            print(f"  {line}")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
