"""Every example runs as a user runs it, prints what it promises and warns of nothing.

That takes seconds each, so by default two of them are run in this process, for a short time.
"""

import os
import re
import struct
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from symgrad.__main__ import main
from tests.support.c_programs import needs
from tests.support.mpi import run_ranks

ROOT = Path(__file__).resolve().parents[2]
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def run_example(
    name: str, *arguments: str, folder: Path, timeout: int = 120
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "examples" / name), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout
    )
    assert "it/s" not in done.stderr, "a bar of progress is for terminals"
    assert "epoch/s" not in done.stderr, "a bar of progress is for terminals"
    return done


def check_digits(folder: Path) -> None:
    done = run_example("digits.py", "--out", "reading.png", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    printed = done.stdout

    assert float(found(r"test accuracy: ([\d.]+)%", printed)) >= 97
    in_training, bare = re.findall(r"([\d,]+) (?:in training|on one batch)", printed)
    assert number(in_training) > 0
    assert number(bare) > 0
    assert re.search(r"kernel +computes +runs +us +share +GFLOP/s +GB/s", printed)
    shares = [float(share) for share in re.findall(r"(?m)^k\d+ .*? ([\d.]+)%", printed)]
    assert sum(shares) == pytest.approx(100, abs=2)

    check_picture(folder, "reading.png")


def check_digits_step(folder: Path) -> None:
    check_step("training", folder)


def check_distributed(folder: Path) -> None:
    ended = run_ranks("openmpi", 2, [str(ROOT / "examples" / "distributed.py")], folder=folder)
    assert ended.status == 0, ended.errors
    assert "ranks: 2," in ended.output
    assert float(found(r"test accuracy: ([\d.]+)%", ended.output)) >= 97
    options = ["--network", "gpt", "--steps", "12", "--reproducible", "--shard-state"]
    cut = [*options[:4], "--tensor-parallel"]
    losses = []
    for ranks, given in ((1, options), (2, [*options, "--checkpoint", "gpt.file"]), (2, cut)):
        program = [str(ROOT / "examples" / "distributed.py"), *given]
        ended = run_ranks("openmpi", ranks, program, folder=folder)
        assert ended.status == 0, ended.errors
        losses.append(ended.output.splitlines()[-1])
    assert losses[0] == losses[1]
    bits = [float(found(r"unseen text: ([\d.]+)", line)) for line in losses]
    assert bits[2] == pytest.approx(bits[0], abs=0.002)


def check_step(name: str, folder: Path) -> None:
    program = f"{ROOT / 'examples' / 'digits_step.py'}:{name}"
    command = [sys.executable, "-m", "symgrad", "inspect", program]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "einsum" in done.stdout
    assert ("gradient buffers: 0 bytes" in done.stdout) == (name == "training")


def check_char_lstm(folder: Path) -> None:
    """Let it learn for a tenth of its time, after which it says that it has not learnt enough."""
    done = run_example("char_lstm.py", "--steps", "100", "--out", "curve.png", folder=folder)
    assert done.returncode == 1
    assert "Warning" not in done.stderr
    before, after = map(float, re.findall(r"([\d.]+) (?:before|after)", done.stdout))
    assert after < 16 < 64 < before
    assert 2.6 < float(found(r"bits per character: ([\d.]+)", done.stdout)) < 4.7
    assert number(found(r"steps per second: ([\d,]+)", done.stdout)) > 0
    assert len(done.stdout.splitlines()[0]) == 400
    check_picture(folder, "curve.png")


def check_gpt(folder: Path) -> None:
    """Let it learn for a tenth of its time: more than how often characters are, and not enough."""
    arguments = "--steps", "48", "--out", "curve.png"
    done = run_example("gpt.py", *arguments, folder=folder, timeout=300)
    assert done.returncode == 1
    alone, _pairs, before, after = bits_of_gpt(done)
    assert 2.8 < after < alone < 6 < before
    assert float(found(r"steps per second: ([\d,.]+)", done.stdout)) > 0
    check_picture(folder, "curve.png")


def bits_of_gpt(done: subprocess.CompletedProcess[str]) -> list[float]:
    """Check what was written, and return the bits by characters, by pairs, before and after."""
    assert "Warning" not in done.stderr
    texts = done.stdout.splitlines()[:4]
    assert [len(text) for text in texts] == [64] * 4
    assert all(text.startswith("The following ") for text in texts)
    assert len(set(texts)) == 4
    assert float(found(r"logits with a cache differ by ([\d.e-]+)", done.stdout)) < 1e-4
    simple = re.search(r"of characters: ([\d.]+), of pairs: ([\d.]+)", done.stdout)
    own = re.search(r"bits per character: ([\d.]+) before, ([\d.]+) after", done.stdout)
    assert simple
    assert own
    return [float(bits) for bits in (*simple.groups(), *own.groups())]


def check_fixed_point(folder: Path) -> None:
    done = run_example("fixed_point.py", "--out", "progress.png", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    counts = re.findall(r"(\d+) at (?:first|the end)", done.stdout)
    assert len(set(counts)) == 2, "the loop always runs as often"
    assert all(3 < int(count) < 200 for count in counts)
    assert float(found(r"variance explained, test: ([\d.]+)%", done.stdout)) >= 40
    check_picture(folder, "progress.png")


def check_convnet(folder: Path) -> None:
    """Let it learn for two of its thirty epochs, after which it has not learnt enough."""
    done = run_example("convnet.py", "--epochs", "2", "--out", "reading.png", folder=folder)
    assert done.returncode == 1
    assert done.stderr.endswith("the accuracy is below 98.5%\n")
    assert "Warning" not in done.stderr
    assert 80 < float(found(r"test accuracy: ([\d.]+)%", done.stdout)) < 98.5
    assert number(found(r"steps per second: ([\d,]+)", done.stdout)) > 0
    check_picture(folder, "reading.png")


def check_resnet(folder: Path) -> None:
    """Let it learn for one of its eight epochs: what is restored and exported reads the same."""
    done = run_example("resnet.py", "--epochs", "1", "--out", "net", folder=folder)
    assert done.returncode == 1
    assert "Warning" not in done.stderr
    assert 60 < float(found(r"test accuracy: ([\d.]+)%", done.stdout)) < 97.5
    assert "reads the same: True, the library in C: True" in done.stdout
    written = {path.name for path in (folder / "net").iterdir()}
    suffixes = ("h", "json", "o", "png", "safetensors", "so")
    assert written == {f"resnet.{suffix}" for suffix in suffixes}
    check_image(folder / "net" / "resnet.png")


def check_vae(folder: Path) -> None:
    """Let it learn for two of its forty epochs, after which it has not learnt enough."""
    done = run_example("vae.py", "--epochs", "2", "--out", "drawn.png", folder=folder)
    assert done.returncode == 1
    assert "Warning" not in done.stderr
    before, after = map(float, re.findall(r"([\d.]+) (?:before|after)", done.stdout))
    assert 25 < after < 32 < 60 < before
    check_picture(folder, "drawn.png")


def check_gaussian_process(folder: Path) -> None:
    done = run_example("gaussian_process.py", "--out", "fit.png", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    before, after = map(float, re.findall(r"(-[\d.]+) (?:before|after)", done.stdout))
    assert before < -150
    assert after > -80
    assert float(found(r"variance explained: ([\d.]+)%", done.stdout)) >= 40
    check_picture(folder, "fit.png")


def check_extern(folder: Path) -> None:
    done = run_example("extern.py", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    before, after = map(float, re.findall(r"([\d.]+) (?:before|after)", done.stdout))
    assert after < 3.7 < before
    assert "y = 2.00 x" in done.stdout
    assert "the same to the bit: True" in done.stdout


def check_kalman(folder: Path) -> None:
    arguments = ("--out", "track.png", "--export", "library")
    done = run_example("kalman.py", *arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    before, after = map(float, re.findall(r"(-[\d.]+) (?:before|after)", done.stdout))
    assert after > before + 100
    seen, filtered, smoothed = map(
        float, re.findall(r"(?:seen|filtered|smoothed) ([\d.]+)", done.stdout)
    )
    assert smoothed < 0.6 * filtered < 0.4 * seen
    assert found("tracks the same: (.*)", done.stdout) == "True"
    assert (folder / "library" / "kalman.h").exists()
    check_image(folder / "track.png")


def check_picture(folder: Path, name: str) -> None:
    assert [path.name for path in folder.iterdir()] == [name]
    check_image(folder / name)


def check_image(path: Path) -> None:
    picture = path.read_bytes()
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


CHECKS = {
    "digits.py": check_digits,
    "digits_step.py": check_digits_step,
    "distributed.py": check_distributed,
    "char_lstm.py": check_char_lstm,
    "gpt.py": check_gpt,
    "fixed_point.py": check_fixed_point,
    "convnet.py": check_convnet,
    "resnet.py": check_resnet,
    "vae.py": check_vae,
    "gaussian_process.py": check_gaussian_process,
    "extern.py": check_extern,
    "kalman.py": check_kalman,
}


def test_every_example_has_a_check():
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(CHECKS)


# What an example is told to be short, and what it says of having learnt too little.
SHORT = {
    "digits": (["--epochs", "1"], "the accuracy is below 97 %"),
    "char_lstm": (["--steps", "10"], "a character takes more than .* bits"),
    "fixed_point": (["--epochs", "1"], "less than 40% of the variance is explained"),
    "kalman": (["--steps", "0"], "a noise is off by more than 20%"),
    "gaussian_process": (
        ["--steps", "1", "--points", "20"],
        "less than 40% of the variance is explained",
    ),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n == "char_lstm" else n for n in SHORT],
)
def test_example_runs_for_a_short_time(name, tmp_path, monkeypatch, capsys):
    arguments, complaint = SHORT[name]
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments, "--out", str(tmp_path / "it.png")])
    with pytest.raises(SystemExit, match=complaint):
        import_module(f"examples.{name}").main()
    assert found(r"steps per second: ([\d,]+)", capsys.readouterr().out)
    check_picture(tmp_path, "it.png")


@needs("cc")
def test_a_function_of_c_is_called_in_a_compiled_and_in_an_exported_step(tmp_path):
    check_extern(tmp_path)


def test_the_step_of_digits_is_inspected(capsys):
    assert main(["inspect", f"{ROOT / 'examples' / 'digits_step.py'}:training"]) == 0
    printed = capsys.readouterr().out
    assert "einsum" in printed
    assert "gradient buffers: 0 bytes" in printed


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_example_does_what_it_says(name, tmp_path):
    CHECKS[name](tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clipped", "recurrent"])
def test_the_other_steps_of_digits_are_inspected(name, tmp_path):
    check_step(name, tmp_path)


@pytest.mark.slow
def test_an_lstm_learns_to_write(tmp_path):
    done = run_example("char_lstm.py", "--out", "curve.png", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    before, after = map(float, re.findall(r"([\d.]+) (?:before|after)", done.stdout))
    assert after < 8 < 64 < before
    assert float(found(r"bits per character: ([\d.]+)", done.stdout)) < 2.6
    sample = done.stdout.splitlines()[0]
    assert len(sample) == 400
    assert sample.count(" ") > 30, "nothing that looks like words"


@pytest.mark.slow
def test_a_transformer_learns_more_than_pairs_of_characters(tmp_path):
    done = run_example("gpt.py", "--out", "curve.png", folder=tmp_path, timeout=900)
    assert done.returncode == 0, done.stderr
    _alone, pairs, _before, after = bits_of_gpt(done)
    assert after < 2.8 < pairs


@pytest.mark.slow
def test_a_convolutional_network_learns_to_read(tmp_path):
    done = run_example("convnet.py", "--out", "reading.png", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert float(found(r"test accuracy: ([\d.]+)%", done.stdout)) >= 98.5


@pytest.mark.slow
def test_a_residual_network_learns_to_read(tmp_path):
    done = run_example("resnet.py", "--out", "net", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert float(found(r"test accuracy: ([\d.]+)%", done.stdout)) >= 97.5


@pytest.mark.slow
def test_an_autoencoder_learns_to_draw(tmp_path):
    done = run_example("vae.py", "--out", "drawn.png", folder=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_digits_fails_where_it_does_not_learn_to_read(tmp_path):
    done = run_example("digits.py", "--epochs", "1", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.endswith("the accuracy is below 97 %\n")
