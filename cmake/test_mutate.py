"""Where mutate.py finds something to change, and what becomes of it, on made-up code; with KVTIDE_TEST_SCOPE=all a small sample."""

import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mutate  # noqa: E402  pylint: disable=wrong-import-position


def mutants(text):
    return [text[:begin] + new + text[end:] for begin, end, new in mutate.sites(text)]


@pytest.mark.parametrize("code, becomes", [
    ("return a < b;", ["return a <= b;"]),
    ("return a + b;", ["return a - b;"]),
    ("x += a && b;", ["x -= a && b;", "x += a || b;"]),
    ("return std::max(a, b);", ["return std::min(a, b);"]),
    ("return 2;", ["return 3;"]),
    ("return 0.5F;", ["return (2 * 0.5F);"]),
    ("if (a) b();", ["if (!(a)) b();"]),
    ("for (int i = 0; i < n; ++i) f(i);", ["for (int i = 1; i < n; ++i) f(i);", "for (int i = 0; i <= n; ++i) f(i);"]),
])
def test_every_change_of_a_statement(code, becomes):
    assert mutants(code) == becomes


@pytest.mark.parametrize("code", ["// a < b", "/* a\n + b */", 'f("1 < 2");', "#include <vector>",
                                  'throw InputError(fmt::format("{}", a + 1));',
                                  'KVTIDE_ASSERT(a < b, "no");', "static_assert(a == b);", "values.reserve(n + 1);", "std::vector<int> a;",
                                  "f(1e-9, 1e-12);", "template <int kN>", "using A = B<3>;", "f(x1, kInt4);"])
def test_nothing_is_found_where_no_rule_is(code):
    assert mutants(code) == []


def test_masking_keeps_every_place():
    text = 'a < b;  // a < b\nf("x\\"y", \'"\', 1\'000);\n'
    masked = mutate.masked(text)
    assert len(masked) == len(text) and masked.count("\n") == 2
    assert masked.startswith("a < b;") and "//" not in masked and "x" not in masked


def test_a_mutant_is_named_by_its_line_and_not_by_where_that_stands():
    code = "int f() {\n  return a + b;\n}\n"
    (site,) = mutate.sites(code)
    assert mutate.described(code, site) == ("return a + b;", "9: + -> -")
    assert mutate.described("\n\n" + code, mutate.sites("\n\n" + code)[0]) == ("return a + b;", "9: + -> -")
    assert mutate.line_of(code, site[0]) == 2


def test_a_file_is_tried_with_its_own_suites_first(tmp_path):
    test = tmp_path / "a_test.cc"
    test.write_text("TEST(A, One) {}\nTEST_F(B, Two) {}\n  TEST(C, NotAtTheMargin) {}\nTEST(A, Three) {}\n")
    assert mutate.suites_of(test) == "A.*:B.*"
    assert mutate.suites_of(tmp_path / "none.cc") == ""


def test_a_sample_does_not_change_with_code_elsewhere():
    def sample(text):
        order = sorted(mutate.sites(text), key=lambda site: mutate.drawn(1, text, pathlib.Path("a.cc"), site))
        return [mutate.described(text, site) for site in order]

    lines = [f"  if (a{i} < b) return {i};" for i in range(20)]
    some, all_of_them = sample("\n".join(lines[5:])), sample("\n".join(lines))
    assert some != sorted(some)
    assert some == [mutant for mutant in all_of_them if mutant in some]


def test_code_for_another_processor_is_left_out():
    tiles = pathlib.Path("sim/kv/compression/matrix_tiles.cc")
    assert (mutate.SOURCE / tiles).exists()
    assert mutate.is_run_here(tiles, {"avx512f", "amx_bf16"})
    assert not mutate.is_run_here(tiles, {"avx512f"})
    assert mutate.is_run_here(tiles, set())
    assert mutate.is_run_here(pathlib.Path("sim/kv/rope.cc"), {"avx512f"})


def test_listed_equivalents_still_stand_in_the_code():
    for (file, line, change), reason in mutate.known_equivalents().items():
        text = (mutate.SOURCE / file).read_text()
        assert reason
        assert (line, change) in {mutate.described(text, site) for site in mutate.sites(text)}, (file, line, change)


@pytest.mark.skipif(os.environ.get("KVTIDE_TEST_SCOPE") != "all", reason="builds the rooms a second time: test --all")
@pytest.mark.parametrize("room", ["kv", "loss"])
def test_no_mutant_of_a_small_sample_survives(room):
    done = subprocess.run([sys.executable, mutate.__file__, "--room", room, "--count", "15", "--minutes", "10"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
