"""Write what PyTorch computes of grouped and scaled products to `tests/data/torch_products.npz`.

Run it as `python -m tests.golden_torch.make_products` where PyTorch 2.13 is installed; the tests
need it not. Last layers with their loss and convolutions of sequences are here as well. Values and
gradients are float64, but for grouped products, which PyTorch has of float32 and no wider ones.
Scaled products are the formulas that PyTorch and JAX document: neither computes them on a CPU, but
of 8-bit floats.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from tests.golden_torch.make_places import Golden, Rng, write

TARGET = Path(__file__).parents[1] / "data" / "torch_products.npz"


def linear_cross_entropy(rng: Rng, number: int) -> Golden:
    """Return a last layer and its loss, with and without all that is optional."""
    batch, features, classes = (int(n) for n in rng.integers(1, 7, 3))
    arrays = {
        "x": rng.normal(size=(batch, features)),
        "weight": rng.normal(size=(features, classes)),
        "labels": rng.integers(0, classes, batch),
    }
    if number % 2:
        arrays["bias"] = rng.normal(size=classes)
    reduction, smoothing = ("mean", "sum", "none")[number % 3], (0.0, 0.25)[number // 2 % 2]
    ignored = int(arrays["labels"][0]) if number // 4 % 2 and batch > 1 else None
    if ignored is not None and (arrays["labels"] == ignored).all():
        ignored = None

    def peer(
        x: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, bias: Any = None
    ) -> torch.Tensor:
        return functional.linear_cross_entropy(
            x, weight.T, labels, linear_bias=bias, reduction=reduction, ignore_index=ignored,
            label_smoothing=smoothing,
        )  # fmt: skip

    kwargs = {"reduction": reduction, "ignore_index": ignored, "label_smoothing": smoothing}
    return Golden("linear_cross_entropy", arrays, peer, kwargs)


def conv_tbc(rng: Rng, number: int) -> Golden:
    """Return convolutions of sequences whose time comes first."""
    window, padding = 1 + number % 3, number // 3
    time, batch, channels, filters = (int(n) for n in rng.integers((4, 1, 1, 1), (8, 5, 5, 5)))
    arrays = {
        "x": rng.normal(size=(time, batch, channels)),
        "kernel": rng.normal(size=(window, channels, filters)),
        "bias": rng.normal(size=filters),
    }

    def peer(x: torch.Tensor, kernel: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return functional.conv_tbc(x, kernel, bias, padding)

    return Golden("conv_tbc", arrays, peer, {"padding": padding})


def grouped_mm(rng: Rng, number: int) -> Golden:
    """Return groups of rows, of columns, of terms, and batches; also empty groups and long ones."""
    kind, groups = number % 4, 1 + number // 4 % 4
    long, m, k, n = 16 * int(rng.integers(1, 12)), 8, 16, 24
    shapes = (
        ((long, k), (groups, k, n)),
        ((groups, m, k), (k, long)),
        ((m, long), (long, n)),
        ((groups, m, k), (groups, k, n)),
    )[kind]
    arrays = {
        name: rng.normal(size=shape).astype(np.float32)
        for name, shape in zip("ab", shapes, strict=True)
    }
    if kind < 3:
        # The last group ends with all rows: PyTorch leaves those after it as they were.
        cuts = np.sort(rng.integers(0, long + 1, groups - 1))
        arrays["offsets"] = np.concatenate([cuts, [long]]).astype(np.int32)

    def peer(a: torch.Tensor, b: torch.Tensor, offsets: Any = None) -> torch.Tensor:
        return functional.grouped_mm(a, b, offs=offsets)

    return Golden("grouped_mm", arrays, peer)


def scaled_mm(rng: Rng, number: int) -> Golden:
    """Return products of matrices with a scale for all, for rows, and for blocks.

    PyTorch's takes 8-bit floats alone, so this is what it says that it computes.
    """
    m, k, n = (4 * int(size) for size in rng.integers(1, 4, 3))
    shapes = (((), ()), ((m, 1), (1, n)), ((m, 2), (k // 4, n // 2)), ((m // 2, k), (1, 1)))
    of_a, of_b = shapes[number % 4]
    arrays = {
        "a": rng.normal(size=(m, k)), "b": rng.normal(size=(k, n)),
        "a_scales": rng.uniform(0.5, 2, of_a), "b_scales": rng.uniform(0.5, 2, of_b),
        "bias": rng.normal(size=n),
    }  # fmt: skip

    def peer(a: Any, b: Any, a_scales: Any, b_scales: Any, bias: Any) -> torch.Tensor:
        scaled: torch.Tensor = _scaled(a, a_scales) @ _scaled(b, b_scales) + bias
        return scaled

    return Golden("scaled_mm", {k: np.asarray(v) for k, v in arrays.items()}, peer)


def _scaled(x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    if scales.ndim:
        for axis in (0, 1):
            scales = scales.repeat_interleave(x.shape[axis] // scales.shape[axis], axis)
    return x * scales


def scaled_matmul(rng: Rng, number: int) -> Golden:
    """Return batches of products with blocks along the sum, as many in both or not."""
    batch, m, n = (int(size) for size in rng.integers(1, 5, 3))
    blocks = ((1, 1), (2, 2), (4, 1), (3, 4))[number % 4]
    shapes = {
        "a": (batch, m, 12), "b": (batch, n, 12),
        "a_scales": (batch, m, blocks[0]), "b_scales": (batch, n, blocks[1]),
    }  # fmt: skip
    arrays = {k: rng.uniform(0.5, 2, s).astype(np.float32) for k, s in shapes.items()}

    def peer(a: Any, b: Any, a_scales: Any, b_scales: Any) -> torch.Tensor:
        left, right = (
            x * s.repeat_interleave(x.shape[-1] // s.shape[-1], -1)
            for x, s in ((a, a_scales), (b, b_scales))
        )
        y: torch.Tensor = torch.einsum("bmk,bnk->bmn", left, right)
        return y

    return Golden("scaled_matmul", {k: x.astype(np.float64) for k, x in arrays.items()}, peer)


KINDS: dict[Callable[[Rng, int], Golden], int] = {
    linear_cross_entropy: 16,
    conv_tbc: 9,
    grouped_mm: 16,
    scaled_mm: 8,
    scaled_matmul: 8,
}


def main() -> None:
    """Write the file."""
    assert torch.__version__.startswith("2.13"), torch.__version__
    write(TARGET, KINDS)


if __name__ == "__main__":
    main()
