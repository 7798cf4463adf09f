"""How the second environment comes by dolfinx: it waits for others that install something, and does not blame them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

CI = Path(__file__).parents[1] / ".ci"
HELD = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 1 (apt-get)"
MISSING = Path(".make") / "dolfinx-missing"


@pytest.fixture
def install(tmp_path: Path):
    """Run `.ci/dolfinx-environment` where Python has no dolfinx and apt-get is a shell script."""
    commands = {
        "id": "echo 0",
        "sleep": "echo slept >>sleeps",
        "python": "case $* in *find_spec*) test -e found; exit;; esac; exec python3 \"$@\"",
    }  # fmt: skip

    def run(apt_get: str, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        for name, script in (commands | {"apt-get": apt_get}).items():
            (tmp_path / name).write_text(f"#!/bin/bash\n{script}\n")
            (tmp_path / name).chmod(0o755)
        here = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "DOLFINX_PYTHON": str(tmp_path / "python")}
        command, environment = [CI / "dolfinx-environment", *arguments], os.environ | here | settings
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    return run


def test_a_lasting_lock_is_reported_and_marks_nothing(install, tmp_path: Path) -> None:
    for number in range(2):  # the second attempt is one too
        done = install(f"echo '{HELD}' >&2; echo called >>calls; exit 100", APT_PATIENCE="0")
        assert done.returncode == 3
        assert "another process held apt's lock" in done.stdout.splitlines()[-1]
        assert not (tmp_path / MISSING).exists()
        assert (tmp_path / "calls").read_text().count("called") == number + 1


def test_a_lock_that_is_let_go_is_waited_for(install, tmp_path: Path) -> None:
    held = f"[ $(wc -l <calls) -gt 3 ] || {{ echo '{HELD}' >&2; exit 100; }}"
    done = install(f"echo $* >>calls; {held}", APT_PATIENCE="600")
    assert (tmp_path / "sleeps").read_text().count("slept") == 3
    calls = (tmp_path / "calls").read_text().splitlines()
    assert ["install" in call for call in calls] == [False] * 4 + [True]
    assert all("DPkg::Lock::Timeout=600" in call for call in calls)
    assert done.returncode == 3 and (tmp_path / MISSING).exists()  # this apt-get installs nothing


def test_what_apt_cannot_install_is_not_tried_again_on_the_same_day(install, tmp_path: Path) -> None:
    refusal = "echo called >>calls; echo 'E: Unable to locate package python3-dolfinx' >&2; exit 100"
    assert install(refusal).returncode == 3
    assert (tmp_path / MISSING).exists()
    calls = (tmp_path / "calls").read_text()
    done = install(refusal)
    assert done.returncode == 3 and "to try again" in done.stdout
    assert (tmp_path / "calls").read_text() == calls


def test_what_apt_brings_can_be_had_before_the_environment(install, tmp_path: Path) -> None:
    assert install("[ $1 = update ] || touch found", "system").returncode == 0
    assert (tmp_path / "found").exists() and not (tmp_path / ".venv-dolfinx").exists()
    assert install("exit 1", "system").returncode == 0  # it is there
