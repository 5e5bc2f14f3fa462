"""Result files open everywhere with named dimensions, and damage is one clear error."""

import h5py
import numpy as np
import pytest
import xarray as xr

from kvtide_analysis import ResultsError, open_results, results

GROUPS = ("summary", "runs/00005/loss", "runs/00005/phase", "runs/00005/scan", "runs/00005/prefix", "runs/00005/machine")


@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf"])
@pytest.mark.parametrize("group", GROUPS)
def test_every_array_has_named_dimensions_and_a_unit_with_both_engines(demo_file, engine, group):
    pytest.importorskip("netCDF4" if engine == "netcdf4" else "h5netcdf")
    with xr.open_dataset(demo_file, group=group, engine=engine) as dataset:
        assert len(dataset.variables) > 1
        for name, variable in dataset.variables.items():
            assert not any(str(dimension).startswith("phony_dim") for dimension in variable.dims), name
            assert "units" in variable.attrs or "units" in variable.encoding, name


def test_own_reader_gives_the_same_arrays_as_xarray(demo_file):
    pytest.importorskip("netCDF4")
    own = open_results(demo_file).run(5)["loss"]
    with xr.open_dataset(demo_file, group="runs/00005/loss", engine="netcdf4") as other:
        assert own["mass_loss"].dims == ("position",)
        np.testing.assert_array_equal(own["mass_loss"], other["mass_loss"])
        np.testing.assert_array_equal(own["position"], other["position"])


def test_summary_has_a_row_per_run_and_strings_as_text(demo_file):
    results = open_results(demo_file)
    assert len(results) == 22  # identity, and 7 policies x 3 block sizes
    assert results.summary.loc[1, "compression.stages"] == "evict-75"
    assert results.units["kv_bytes"] == "B"
    assert results.summary.loc[0, "memory_saving"] == 0


def test_scale_of_an_ancestor_group_gives_values(tmp_path):
    path = tmp_path / "nested.h5"
    with h5py.File(path, "w") as file:
        file["summary/run"] = [0]
        file["runs/00000/position"] = [10, 20]
        file["runs/00000/position"].make_scale("position")
        file["runs/00000/loss/by_head/mass_loss"] = [[0.5, 1.0]]
        file["runs/00000/loss/by_head/mass_loss"].dims[1].attach_scale(file["runs/00000/position"])
    array = open_results(path).run(0)["loss/by_head"]["mass_loss"]
    assert array.dims == ("mass_loss_dim0", "position")
    assert list(array["position"].values) == [10, 20]


def test_missing_groups_are_absent_not_errors(demo_file):
    run = open_results(demo_file).run(0)
    assert "no_such_group" not in run
    assert run.array("no_such_group", "ttft_ms") is None
    assert run.array("serving", "no_such_time") is None
    assert run.array("loss", "no_such_loss") is None


def test_run_outside_the_file_is_refused(demo_file):
    results = open_results(demo_file)
    results.run(21)
    with pytest.raises(ResultsError, match="no run 22; the file has 22 runs"):
        results.run(22)


def test_missing_text_truncated_and_foreign_files_are_refused(tmp_path, demo_file):
    with pytest.raises(ResultsError, match="no such file"):
        open_results(tmp_path / "absent.h5")
    text = tmp_path / "text.h5"
    text.write_text("not HDF5")
    with pytest.raises(ResultsError, match="cannot be read as HDF5"):
        open_results(text)
    cut = tmp_path / "cut.h5"
    cut.write_bytes(demo_file.read_bytes()[:5000])
    with pytest.raises(ResultsError, match="cannot be read as HDF5"):
        open_results(cut)
    foreign = tmp_path / "foreign.h5"
    with h5py.File(foreign, "w") as file:
        file["tokens"] = [1]
    with pytest.raises(ResultsError, match="no group /summary"):
        open_results(foreign)


def test_columns_of_unequal_length_are_refused(tmp_path):
    path = tmp_path / "uneven.h5"
    with h5py.File(path, "w") as file:
        file["summary/run"] = [0, 1]
        file["summary/period"] = [64.0]
    with pytest.raises(ResultsError, match=r"lengths \[1, 2\]"):
        open_results(path)


def test_declared_petabytes_are_refused_before_allocation(tmp_path):
    path = tmp_path / "huge.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("summary/period", shape=(1 << 47,), dtype="f8", chunks=(1024,))
    with pytest.raises(ResultsError, match="140737488355328 elements; allowed are up to"):
        open_results(path)


@pytest.mark.parametrize("error", [RuntimeError("Unspecified error in H5DSiterate_scales"), ValueError("Not a datatype")])
def test_whatever_the_library_says_of_damaged_bytes_is_wrong_input(demo_file, monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(results, "_read_summary", fail)
    with pytest.raises(ResultsError, match="demo.h5: damaged"):
        open_results(demo_file)
