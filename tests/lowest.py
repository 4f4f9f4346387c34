"""Runs the tests with the lowest version of every package that setup.cfg allows.

    python3.11 -m tests.lowest                      the whole suite
    python3.11 -m tests.lowest tests/functional     what follows is pytest's

It makes an environment of its own, ``.venv-lowest``, beside the one for work. The versions are those of
setup.cfg, the lower bound of each package that the package itself or the extra ``test`` asks for. What these
packages ask for in turn is as new as they allow. Old versions of theirs use what new ones have deprecated, so
deprecations are no errors here. Compiled kernels are kept in the environment, for Numba's version of it.
"""

import os
import re
import subprocess
import sys
import venv
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / ".venv-lowest"


def requirements():
    """What setup.cfg asks for to install the package and to run its tests, one requirement each."""
    settings = _settings()
    asked = settings["options"]["install_requires"] + settings["options.extras_require"]["test"]
    return [line for line in asked.splitlines() if line]


def constraints():
    """name -> the lowest version that setup.cfg allows. Raises ValueError for a requirement without one."""
    found = {}
    for requirement in requirements():
        parts = re.match(r"([\w-]+)>=([\w.]+)", requirement)
        if parts is None:
            raise ValueError(f"setup.cfg: expected a requirement as name>=version, got {requirement!r}")
        found[parts[1]] = parts[2]
    return found


def lowest_python():
    """The lowest Python that setup.cfg allows, (3, 11): later ones lack wheels of the lowest versions."""
    return tuple(map(int, _settings()["options"]["python_requires"].removeprefix(">=").split(".")))


def _settings():
    settings = ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    return settings


def main(options):
    """Install, and run pytest with these options. Returns its exit code; 2 for another Python."""
    wanted = lowest_python()
    if sys.version_info[:2] != wanted:
        version, got = ".".join(map(str, wanted)), ".".join(map(str, sys.version_info[:2]))
        print(f"lowest versions: expected Python {version}, got {got}; run it with python{version}", file=sys.stderr)
        return 2
    venv.create(PLACE, with_pip=True)
    python = next(path for path in (PLACE / "bin" / "python", PLACE / "Scripts" / "python.exe") if path.exists())
    listed = PLACE / "constraints.txt"
    listed.write_text("".join(f"{name}=={version}\n" for name, version in constraints().items()), encoding="utf-8")
    install = [python, "-m", "pip", "install", "--quiet", "--constraint", listed, "--editable", ".[test]"]
    subprocess.run(install, cwd=ROOT, check=True)
    tests = [python, "-m", "pytest", "-W", "ignore::DeprecationWarning", *options]
    return subprocess.run(tests, cwd=ROOT, env=os.environ | {"NUMBA_CACHE_DIR": str(PLACE / "numba")}).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
