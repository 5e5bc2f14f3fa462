"""A kvtide result file as pandas and xarray objects.

The file is netCDF-4 readable HDF5: `/summary/<column>` over dimension `run`, and `/runs/<00000>/<group>/<array>` over
dimensions named by HDF5 dimension scales that live in the array's own group or an ancestor. It is read here with h5py
alone, so that neither netCDF4 nor h5netcdf has to be installed; both open the same file too.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping

import h5py
import numpy as np
import pandas as pd
import xarray as xr

from .exit_codes import InputError

SUPPORTED_SCHEMA = 1
# A damaged or hostile header can declare any extent; a real array of a report is far smaller than this.
MAX_ELEMENTS = 1 << 27  # elements of one array


class ResultsError(InputError):
    """The file is missing, damaged or not a kvtide result; the text says what was found and what is expected."""


class RunArrays(Mapping[str, xr.Dataset]):
    """The arrays of one run, one `xarray.Dataset` per group ("loss", "phase", "machine", ...).

    A group that the run does not have is simply absent: `"scan" in run` asks, `run.get("scan")` gives None. `attrs` are those of the
    run itself (its resolved compression, the offset of its block grid).
    """

    def __init__(self, name: str, groups: dict[str, xr.Dataset], attrs: dict[str, object] | None = None):
        self.name = name
        self.attrs = attrs or {}
        self._groups = groups

    def __getitem__(self, group: str) -> xr.Dataset:
        return self._groups[group]

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def array(self, group: str, variable: str) -> xr.DataArray | None:
        """One array, or None where the group or the variable is missing."""
        dataset = self._groups.get(group)
        return None if dataset is None or variable not in dataset else dataset[variable]


class Results:
    """What `open_results` returns.

    Attributes
    ----------
    path     the file
    attrs    root attributes (title, experiment_yaml, kvtide_version, loss_model, ...)
    summary  one row per run, one column per `/summary` dataset, indexed by run number (from 0)
    units    unit of each summary column ("B", "us", "token", "1"); long_name of each in `definitions`
    """

    def __init__(self, path: str):
        self.path = path
        with _open(path) as file:
            if not isinstance(file.get("summary"), h5py.Group):
                raise ResultsError(f"{path}: no group /summary: not a kvtide result file, or written by an unfinished run")
            self.attrs = {name: _plain(value) for name, value in file.attrs.items()}
            self.summary, self.units, self.definitions = _read_summary(path, file["summary"])

    def __len__(self) -> int:
        return len(self.summary)

    def run(self, index: int) -> RunArrays:
        """The arrays of run `index` (its number in `summary.index`); empty for a run that failed.

        Raises ResultsError for an index the summary does not have.
        """
        if index not in self.summary.index:
            raise ResultsError(f"{self.path}: no run {index}; the file has {len(self)} runs, numbered from 0")
        name = f"{index:05d}"
        with _open(self.path) as file:
            group = file.get(f"runs/{name}")
            if not isinstance(group, h5py.Group):
                return RunArrays(name, {})
            attrs = {key: _plain(value) for key, value in group.attrs.items()}
            return RunArrays(name, dict(_read_groups(self.path, group)), attrs)


def open_results(path: str | os.PathLike[str]) -> Results:
    """Open a result file. Raises ResultsError when it is missing, damaged or something else.

    >>> results = open_results("results/demo.h5")           # doctest: +SKIP
    >>> results.summary[["memory_saving", "loss_worst"]]     # doctest: +SKIP
    >>> results.run(3)["loss"]["mass_loss"].plot()           # doctest: +SKIP
    """
    return Results(os.fspath(path))


@contextlib.contextmanager
def _open(path: str) -> Iterator[h5py.File]:
    """The file; whatever h5py raises over its bytes is a ResultsError."""
    if not os.path.isfile(path):
        raise ResultsError(f"{path}: no such file")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read as HDF5 ({error}); a network file system that refuses locks needs "
                           "HDF5_USE_FILE_LOCKING=FALSE") from error
    with file:
        try:
            yield file
        except (RuntimeError, ValueError, KeyError, TypeError, OSError) as error:
            raise ResultsError(f"{path}: damaged ({error})") from error


def _read_summary(path: str, group: h5py.Group) -> tuple[pd.DataFrame, dict[str, str], dict[str, str]]:
    columns: dict[str, np.ndarray] = {}
    units: dict[str, str] = {}
    definitions: dict[str, str] = {}
    for name, dataset in group.items():
        if not isinstance(dataset, h5py.Dataset) or dataset.ndim != 1:
            continue
        columns[name] = _read_array(path, dataset)
        units[name] = str(_plain(dataset.attrs.get("units", "1")))
        definitions[name] = str(_plain(dataset.attrs.get("long_name", name)))
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1:
        raise ResultsError(f"{path}: /summary: columns must have one value per run, found lengths {sorted(lengths)}")
    index = pd.Index(columns.pop("run", np.arange(lengths.pop())), name="run")
    if not index.is_unique:
        raise ResultsError(f"{path}: /summary/run: run numbers must differ from each other")
    units.pop("run", None)
    definitions.pop("run", None)
    return pd.DataFrame(columns, index=index), units, definitions


def _read_groups(path: str, group: h5py.Group, prefix: str = "") -> Iterator[tuple[str, xr.Dataset]]:
    """(name, dataset) of every group below `group` that holds arrays; nested ones as "outer/inner"."""
    for name, member in group.items():
        if isinstance(member, h5py.Group):
            dataset = _read_dataset(path, member)
            if dataset.variables:
                yield prefix + name, dataset
            yield from _read_groups(path, member, f"{prefix}{name}/")


def _read_dataset(path: str, group: h5py.Group) -> xr.Dataset:
    variables: dict[str, tuple] = {}
    for name, item in group.items():
        if not isinstance(item, h5py.Dataset):
            continue
        is_scale = h5py.h5ds.is_scale(item.id)
        dimensions = [name] if is_scale and item.ndim == 1 else [_dimension_name(item, axis) for axis in range(item.ndim)]
        attrs = {key: str(_plain(item.attrs[key])) for key in ("units", "long_name") if key in item.attrs}
        variables[name] = (dimensions, _read_array(path, item), attrs)
        for scale in (item.dims[axis][0] for axis in range(item.ndim) if not is_scale and len(item.dims[axis])):
            # A scale of an ancestor group gives its values too, so that each Dataset stands alone.
            scale_name = _scale_name(scale)
            variables.setdefault(scale_name, ([scale_name], _read_array(path, scale)))
    try:
        dataset = xr.Dataset(variables)
    except ValueError as error:
        raise ResultsError(f"{path}: {group.name}: arrays do not fit their dimensions ({error})") from error
    return dataset.set_coords([name for name in dataset.dims if name in dataset])


def _dimension_name(item: h5py.Dataset, axis: int) -> str:
    scales = item.dims[axis]
    return _scale_name(scales[0]) if len(scales) else f"{item.name.rsplit('/', 1)[-1]}_dim{axis}"


def _scale_name(scale: h5py.Dataset) -> str:
    """The scale's own NAME attribute; its path only where that is empty: finding a path searches the whole file."""
    name = h5py.h5ds.get_scale_name(scale.id).decode("utf-8", "replace").rstrip("\0")
    return name if name and not name.startswith("This is a netCDF") else scale.name.rsplit("/", 1)[-1]


def _read_array(path: str, dataset: h5py.Dataset) -> np.ndarray:
    if dataset.size is None or dataset.size > MAX_ELEMENTS:
        raise ResultsError(f"{path}: {dataset.name}: {dataset.size} elements; allowed are up to {MAX_ELEMENTS}")
    try:
        values = dataset[()]
    except (OSError, TypeError, ValueError) as error:
        raise ResultsError(f"{path}: {dataset.name}: cannot be read ({error})") from error
    if h5py.check_string_dtype(dataset.dtype):
        values = np.array([_plain(value) for value in np.ravel(values)], dtype=object).reshape(np.shape(values))
    return values


def _plain(value):
    """A string, number or list from an HDF5 attribute or string element."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.ndarray):
        return _plain(value[0]) if value.size == 1 else [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value
