"""What `pip install tq-tasks`, with no extra, gives to a user."""

from __future__ import annotations

import json
import shutil
import subprocess
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ONE_TASK = Path(__file__).with_name("one_task.py")
TIMEOUT_SECONDS = 100


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh virtual environment that has tq and what tq itself asks for."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", ROOT, cwd=folder)
    return python


def test_a_bare_install_brings_one_package(bare: Path, folder: Path):
    listed = json.loads(run(bare, "-m", "pip", "list", "--format=json", "--disable-pip-version-check", cwd=folder))
    names = {each["name"].lower().replace("_", "-") for each in listed}
    assert names - {"pip", "setuptools", "wheel"} == {"tq-tasks", "typing-extensions"}


def test_a_bare_install_runs_a_task_and_loads_nothing_else(bare: Path, folder: Path):
    shutil.copy(ONE_TASK, folder)
    said = json.loads(run(bare, ONE_TASK.name, cwd=folder))
    assert said["result"] == "hello, world"
    assert set(said["third_party"]) <= {"typing_extensions"}
    assert Path(said["tq"]).is_relative_to(bare.parents[1]), "it was not the installed tq that ran"


def test_the_wheel_carries_types_and_statements(bare: Path, folder: Path):
    where = run(bare, "-c", "import tq, pathlib; print(pathlib.Path(tq.__file__).parent)", cwd=folder)
    installed = Path(where.strip())
    shipped = [path.relative_to(ROOT / "tq") for path in (ROOT / "tq").rglob("*.sql")]
    assert (installed / "py.typed").is_file()
    assert shipped
    assert all((installed / path).is_file() for path in shipped)


def test_both_commands_are_installed(bare: Path):
    assert (bare.parent / "tq").is_file()
    assert (bare.parent / "tqctl").is_file()


def test_the_version_is_the_one_in_the_package(bare: Path, folder: Path):
    program = "import tq; from importlib.metadata import version; print(tq.__version__ == version('tq-tasks'))"
    assert run(bare, "-c", program, cwd=folder).strip() == "True"
