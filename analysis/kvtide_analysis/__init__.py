"""Open, plot and report kvtide results (HDF5 files written by `kvtide run`)."""

from .results import Results, ResultsError, open_results

__all__ = ["Results", "ResultsError", "open_results"]
