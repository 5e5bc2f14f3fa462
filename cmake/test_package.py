"""The Debian package: what it declares, and that the program runs from its unpacked files alone."""

import os
import pathlib
import re
import shutil
import subprocess

import h5py
import pytest

from test_consumer import BUILD, call, clean_environment

pytestmark = [
    pytest.mark.skipif(os.environ.get("KVTIDE_TEST_SCOPE") != "all", reason="packing takes a minute; kvtide test --all"),
    pytest.mark.skipif(shutil.which("dpkg-shlibdeps") is None, reason="needs dpkg-dev"),
]


@pytest.fixture(scope="module", name="packages")
def fixture_packages(tmp_path_factory):
    """The .deb files by package name."""
    if not (BUILD / "sim" / "kvtide").exists():
        pytest.skip(f"no built kvtide in {BUILD}")
    folder = tmp_path_factory.mktemp("packages")
    call("cpack", "-G", "DEB", "-B", folder, "--config", BUILD / "CPackConfig.cmake")
    return {path.name.split("_")[0]: path for path in folder.glob("*.deb")}


@pytest.fixture(scope="module", name="root")
def fixture_root(packages, tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    call("dpkg-deb", "-x", packages["kvtide"], root)
    return root


def field(package, name):
    return call("dpkg-deb", "-f", package, name)


def test_there_is_one_for_users_and_one_for_developers(packages):
    assert sorted(packages) == ["kvtide", "kvtide-dev"]
    version = re.search(r"project\(kvtide VERSION ([\d.]+)", (pathlib.Path(__file__).parent.parent / "CMakeLists.txt").read_text())
    assert {field(path, "Version").strip() for path in packages.values()} == {version[1]}


def test_what_the_program_links_and_the_report_imports_is_declared(packages):
    depends = field(packages["kvtide"], "Depends")
    for part in ("libhdf5", "libyaml-cpp", "libfmt", "libboost-program-options", "libstdc++6", "python3-h5py", "python3-plotly"):
        assert part in depends, depends


def test_headers_and_libraries_are_not_forced_on_users(packages):
    listing = call("dpkg-deb", "-c", packages["kvtide"])
    assert "/usr/bin/kvtide" in listing
    assert ".a\n" not in listing and "/include/" not in listing
    assert "libkvtide_engine.a" in call("dpkg-deb", "-c", packages["kvtide-dev"])


def test_the_unpacked_demo_runs_without_a_source_tree(root, tmp_path):
    done = call(root / "usr" / "bin" / "kvtide", "demo", "--quiet",
                cwd=tmp_path, env=clean_environment())
    assert "results/demo.h5" in done
    with h5py.File(tmp_path / "results" / "demo.h5") as results:
        # Evict 25 % keeps 384 of the 512 blocks of 64 in 32,768 tokens.
        assert results["summary/memory_saving"][0] == pytest.approx(0.25)
    assert "<html" in (tmp_path / "results" / "demo.html").read_text()
