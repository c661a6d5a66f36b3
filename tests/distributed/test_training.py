"""Data-parallel training gives the weights that one rank has with all samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.mpi import LIBRARIES, run_ranks


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("library", LIBRARIES)
def test_ranks_with_parts_of_the_samples_train_as_one_with_all(
    library: str, ranks: int, tmp_path: Path
) -> None:
    program = "tests.distributed.training_programs"
    ended = run_ranks(library, ranks, ["-m", program, str(tmp_path)])
    assert ended.status == 0, ended.errors
    assert ended.output.count("has trained") == ranks
    assert [path.name for path in sorted(tmp_path.glob("*.safetensors"))] == [
        "all.safetensors",
        "drawn.safetensors",
        "small.safetensors",
    ]
