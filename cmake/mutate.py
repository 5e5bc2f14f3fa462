"""Mutation testing: changes one operator, constant or condition of the code at a time and sees whether a test notices.

    mutate.py [--room kv|loss] [--count 60] [--seed 1] [--minutes 30] [--file sim/kv/rope.cc] [--list]

Works on a copy of the tree in build/mutation; the files here are only read. The sites are found in the text (comments, strings,
assertions and error messages left out), a seeded sample of them is tried: the object is compiled again, the room's tests are
linked and run, first those of the file's own suites, then all, then those of the room above. A test that fails, crashes or runs
into its time limit kills the mutant; what no test notices survives and is listed. Known equivalents, which no test could notice,
are in mutate_equivalents.csv with the reason. Files that this processor does not run are left out. Exit code 1 when one survives
that is not listed there.
"""

import argparse
import csv
import hashlib
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent
EQUIVALENTS = SOURCE / "cmake" / "mutate_equivalents.csv"
# The tests that a room's mutants face, in this order.
TESTS = {"kv": ["kv_test", "loss_test"], "loss": ["loss_test"]}
MEMORY_BYTES = 6 << 30
# Code that only some processors run: flags as in /proc/cpuinfo. Elsewhere no test could notice a change of it.
NEEDED_FLAG = {pathlib.Path("sim/kv/compression/matrix_tiles.cc"): "amx_bf16"}

# (what a site looks like in masked code, what becomes of it). Binary operators have spaces around them, template brackets have not.
OPERATORS = [(old, new) for pair in (("<", "<="), (">", ">="), ("==", "!="), ("+", "-"), ("*", "/"), ("&&", "||"), ("+=", "-="))
             for old, new in (pair, pair[::-1])]
OPERATORS += [("%", "*")]
WORDS = [("true", "false"), ("false", "true"), ("std::min", "std::max"), ("std::max", "std::min"), ("floor", "ceil"), ("ceil", "floor")]


def masked(text):
    """The text with everything that is not to be changed blanked out: same length, same lines."""
    def blank(found):
        return re.sub(r"[^\n]", " ", found.group())

    text = re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'(?!\d)', blank, text, flags=re.DOTALL)
    text = re.sub(r"^[ \t]*#[^\n]*", blank, text, flags=re.MULTILINE)
    text = re.sub(r"(?<![\w.])1e-(?:9|1\d)\b", blank, text)  # against rounding: any small number would do
    statement = r"\b(?:throw|KVTIDE_ASSERT|static_assert|using|namespace|warnings\.push_back)\b[^;{]*;?"
    text = re.sub(statement, blank, text)
    return re.sub(r"[\w.>-]*\breserve\([^;]*;|\btemplate\s*<[^\n]*>", blank, text)


def closing(text, opening):
    """Index of the bracket that closes the one at `opening`; -1 where there is none."""
    depth = 0
    for index in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        if depth == 0:
            return index
    return -1


def sites(text):
    """Every change of a file: (begin, end, replacement), in the order of the text."""
    code = masked(text)
    found = []
    for old, new in OPERATORS:
        for match in re.finditer(rf"(?<= ){re.escape(old)}(?= )", code):
            found.append((match.start(), match.end(), new))
    for old, new in WORDS:
        for match in re.finditer(rf"\b{old}\b", code):
            found.append((match.start(), match.end(), new))
    for match in re.finditer(r"(?<![\w.'])\d+(?:\.\d+(?:e-?\d+)?F?)?(?![\w.'])", code):
        number = match.group()
        zero = float(number.rstrip("F")) == 0
        if "." in number:
            found.append((match.start(), match.end(), "1.0" if zero else f"(2 * {number})"))
        else:
            found.append((match.start(), match.end(), str(int(number) + 1)))
    for match in re.finditer(r"\b(?:if|while) \(", code):
        end = closing(code, match.end() - 1)
        if end > 0 and ";" not in code[match.end():end]:
            found.append((match.end(), end, f"!({text[match.end():end]})"))
    return sorted(found)


def line_of(text, index):
    return text.count("\n", 0, index) + 1


def described(text, site):
    """(the line as it stands, the change in few words); what an equivalent is known by, wherever it moves in the file."""
    begin, end, new = site
    line = text[text.rfind("\n", 0, begin) + 1:(text.find("\n", begin) + 1 or len(text) + 1) - 1].strip()
    old = " ".join(text[begin:end].split())
    column = len(re.sub(r"^\s*", "", text[text.rfind("\n", 0, begin) + 1:begin]))
    what = "negated" if new.startswith("!(") else f"{old} -> {new}"
    return line, f"{column}: {what}"


def known_equivalents():
    if not EQUIVALENTS.exists():
        return {}
    with EQUIVALENTS.open(newline="") as file:
        return {(row["file"], row["line"], row["change"]): row["reason"] for row in csv.DictReader(file)}


def suites_of(test_file):
    """GoogleTest filter of the suites in a file, empty when there is none."""
    if not test_file.exists():
        return ""
    return ":".join(f"{suite}.*" for suite in sorted(set(re.findall(r"^TEST(?:_F)?\((\w+),", test_file.read_text(), re.MULTILINE))))


class Tree:
    """The copy, its build and its tests."""

    def __init__(self, folder, jobs):
        self.root, self.build, self.jobs = folder / "tree", folder / "build", jobs
        self.limits = {}

    def copy(self):
        listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=SOURCE, check=True, text=True,
                                stdout=subprocess.PIPE).stdout.splitlines()
        for name in listed:
            source, target = SOURCE / name, self.root / name
            if not source.is_file() or (target.exists() and target.read_bytes() == source.read_bytes()):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        for stale in (path for path in (self.root / "sim").rglob("*.cc") if not (SOURCE / path.relative_to(self.root)).exists()):
            stale.unlink()
        shared, link = SOURCE.parent / "shared", self.root.parent / "shared"
        if shared.exists() and not link.exists():
            link.symlink_to(shared)

    def make(self, *targets):
        done = subprocess.run(["cmake", "--build", str(self.build), "-j", str(self.jobs), "--target", *targets],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode == 0, done.stdout

    def prepare(self, tests):
        # A subscript that a mutant takes past the end of a container is to stop the test, not to read what lies there.
        configure = ["cmake", "-S", str(self.root), "-B", str(self.build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                     "-DKVTIDE_BUILD_BENCHMARKS=OFF", "-DCMAKE_CXX_FLAGS=-D_GLIBCXX_ASSERTIONS"]
        subprocess.run(configure, stdout=subprocess.DEVNULL, check=True)
        is_built, log = self.make(*tests)
        if not is_built:
            raise SystemExit(f"mutate: the build failed:\n{log[-3000:]}")
        for test in tests:
            started = time.monotonic()
            if not self.passes(test, "", 900):
                raise SystemExit(f"mutate: {test} fails without any mutation")
            self.limits[test] = 20 + 6 * (time.monotonic() - started)

    def passes(self, test, suites, limit, **environment):
        def bound():
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        command = [str(self.build / "sim" / test), "--gtest_brief=1", "--gtest_fail_fast"]
        command += [f"--gtest_filter={suites}"] if suites else []
        with subprocess.Popen(command, cwd=self.root, env=dict(os.environ, **environment), stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=bound) as child:
            try:
                return child.wait(limit) == 0
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                return False

    def killer(self, room, file):
        """Which tests notice, "compiler" where it does not compile, None when nobody does."""
        for number, test in enumerate(TESTS[room]):
            if not self.make(test)[0]:
                return "compiler"
            suites = suites_of(self.root / file.with_name(f"{file.stem}_test.cc")) if number == 0 else ""
            if suites and not self.passes(test, suites, self.limits[test]):
                return f"{file.stem}_test"
            if not self.passes(test, "", self.limits[test]):
                return test
            if number == 0 and not self.passes(test, "", self.limits[test], KVTIDE_MATRIX_TILES="off"):
                return f"{test} without tiles"
        return None


def is_run_here(file, flags):
    """@param flags  the processor's, empty where they are not known"""
    return not flags or NEEDED_FLAG.get(file, "") in {*flags, ""}


def processor_flags():
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    found = re.search(r"^flags\s*:(.*)$", cpuinfo.read_text(), re.MULTILINE) if cpuinfo.exists() else None
    return set(found.group(1).split()) if found else set()


def files_of(room):
    files = (path.relative_to(SOURCE) for path in (SOURCE / "sim" / room).rglob("*.cc")
             if not path.name.endswith(("_test.cc", "_bench.cc")) and "testing" not in path.parts)
    flags = processor_flags()
    return sorted(file for file in files if is_run_here(file, flags))


def drawn(seed, text, file, site):
    """Random and the mutant's own: what is changed elsewhere leaves its rank among the others as it was."""
    line, change = described(text, site)
    return hashlib.sha256(f"{seed}|{file}|{line}|{change}".encode()).digest()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--room", choices=sorted(TESTS), default="kv")
    parser.add_argument("--count", type=int, default=60, help="mutants tried, default %(default)s")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30, help="no further mutant is begun after them, default %(default)s")
    parser.add_argument("--file", type=pathlib.Path, help="only this one, as in sim/kv/rope.cc")
    parser.add_argument("--list", action="store_true", help="print the chosen mutants and try none")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()

    texts = {file: (SOURCE / file).read_text() for file in ([arguments.file] if arguments.file else files_of(arguments.room))}
    everything = [(file, site) for file, text in texts.items() for site in sites(text)]
    chosen = sorted(everything, key=lambda place: drawn(arguments.seed, texts[place[0]], *place))
    equivalents = known_equivalents()
    tree = Tree(SOURCE / "build" / "mutation", arguments.jobs)
    if not arguments.list:
        tree.copy()
        tree.prepare(TESTS[arguments.room])
    os.environ["CCACHE_DISABLE"] = "1"  # nobody will want a mutant's object again
    deadline = time.monotonic() + 60 * arguments.minutes
    counts = {"killed": 0, "equivalent": 0, "survived": 0, "compiler": 0}
    for file, site in chosen:
        if counts["killed"] + counts["equivalent"] + counts["survived"] >= arguments.count or time.monotonic() > deadline:
            break
        text = texts[file]
        line, change = described(text, site)
        place = f"{file}:{line_of(text, site[0])}: {line}   [{change}]"
        if arguments.list:
            counts["killed"] += 1
            print(place)
            continue
        if (str(file), line, change) in equivalents:
            counts["equivalent"] += 1
            print(f"equivalent  {place}", flush=True)
            continue
        try:
            (tree.root / file).write_text(text[:site[0]] + site[2] + text[site[1]:])
            killer = tree.killer(arguments.room, file)
        finally:
            (tree.root / file).write_text(text)
        if killer == "compiler":
            counts["compiler"] += 1
            continue
        counts["killed" if killer else "survived"] += 1
        print(f"{'killed' if killer else 'SURVIVED':<10}  {place}{f'   by {killer}' if killer else ''}", flush=True)
    if arguments.list:
        return 0
    tried = counts["killed"] + counts["survived"]
    print(f"{arguments.room}: {len(everything)} places, {tried + counts['equivalent']} mutants tried: {counts['killed']} killed, "
          f"{counts['survived']} survived, {counts['equivalent']} equivalent; {counts['compiler']} more did not compile")
    return 1 if counts["survived"] else 0


if __name__ == "__main__":
    sys.exit(main())
