"""Every example runs as a user runs it, prints what it promises and warns of nothing."""

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def run_example(name: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "examples" / name), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


def check_digits(folder: Path) -> None:
    done = run_example("digits.py", "--out", "reading.png", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    printed = done.stdout

    assert float(found(r"test accuracy: ([\d.]+)%", printed)) >= 97
    in_training, bare = re.findall(r"([\d,]+) (?:in training|on one batch)", printed)
    assert number(in_training) > 0
    assert number(bare) > 0
    assert re.search(r"kernel +computes +us +share +GFLOP/s +GB/s", printed)
    shares = [float(share) for share in re.findall(r"(?m)^k\d+ .* ([\d.]+)%", printed)]
    assert sum(shares) == pytest.approx(100, abs=2)

    assert [path.name for path in folder.iterdir()] == ["reading.png"]
    picture = (folder / "reading.png").read_bytes()
    width, height = struct.unpack(">II", picture[16:24])
    assert picture.startswith(PNG_SIGNATURE)
    assert width >= 800
    assert height >= 300
    assert len(picture) > 20_000, "a picture with nothing on it"


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match, f"{pattern} is not in:\n{text}"
    return match[1]


def number(text: str) -> int:
    return int(text.replace(",", ""))


CHECKS = {"digits.py": check_digits}


def test_every_example_has_a_check():
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(CHECKS)


@pytest.mark.parametrize("name", CHECKS)
def test_example_does_what_it_says(name, tmp_path):
    CHECKS[name](tmp_path)


@pytest.mark.slow
def test_digits_fails_where_it_does_not_learn_to_read(tmp_path):
    done = run_example("digits.py", "--epochs", "1", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.endswith("the accuracy is below 97 %\n")
