"""Open, plot and report kvtide results (HDF5 files written by `kvtide run`)."""

__all__ = ["Results", "ResultsError", "open_results"]


def __getattr__(name: str):
    # Late, so that recording a model needs none of the packages for pictures.
    if name in __all__:
        from . import results

        return getattr(results, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
