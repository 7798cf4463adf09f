"""Runs on disk: single netCDF files, and directories that are written while a run goes on.

=============  ==========================================================================
`netcdf`       a whole run in one file (`Run.save`, `Run.load`)
`files`        files that appear whole or not at all, and errors that say what went wrong
`lock`         one process at a time
`manifest`     what a run is: settings and fingerprints, compared on resume
`segments`     draws, some at a time
`state`        where a run stands
`directory`    all of these in a folder
=============  ==========================================================================
"""

from invsamp.storage.netcdf import read, write

__all__ = ["read", "write"]
