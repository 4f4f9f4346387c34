"""Whether a real MPI is here, which tests of several processes need."""

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path


def mpi_problem():
    """Why no processes can be started here, or None."""
    if find_spec("mpi4py") is None:
        return "mpi4py is not installed: pip install -e '.[mpi]'"
    beside = Path(sys.executable).with_name("mpiexec")
    return None if beside.exists() or shutil.which("mpiexec") else "no mpiexec: pip install -e '.[mpi]'"
