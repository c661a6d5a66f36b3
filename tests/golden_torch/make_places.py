"""Write what PyTorch computes of layers that read at places to `tests/data/torch_places.npz`.

Those are bags of embeddings, pairs of rows, images at the points of a grid, maxima where they were,
and those of windows at random. Run it as `python -m tests.golden_torch.make_places` where PyTorch
2.13 is installed; the tests need it not.
Values and gradients are float64, the gradients those of `sum(result * seed)`. Each configuration is
the call of a function of `sg.nn`: its name, its arguments, and arrays for the others by keyword.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

TARGET = Path(__file__).parents[1] / "data" / "torch_places.npz"

Array = np.ndarray[Any, Any]
Rng = np.random.Generator


@dataclass
class Golden:
    """A call of a layer: `peer` takes the same arrays, as tensors, and gives PyTorch's result.

    That is one tensor, or several of which the first has a gradient.
    """

    layer: str
    arrays: dict[str, Array]
    peer: Callable[..., Any]
    kwargs: dict[str, Any] = field(default_factory=dict)


def embedding_bag(rng: Rng, number: int) -> Golden:
    """Return bags of one length, or of lengths of which some are 0, with and without padding."""
    rows, features = int(rng.integers(2, 7)), int(rng.integers(1, 5))
    reduction = ("mean", "sum", "max")[number % 3]
    has_offsets = bool(number // 3 % 2)
    shape = (int(rng.integers(1, 9)),) if has_offsets else tuple(map(int, rng.integers(1, 5, 2)))
    arrays = {
        "indices": rng.integers(0, rows, shape),
        "table": rng.normal(size=(rows, features)),
    }
    if has_offsets:
        starts = rng.integers(0, shape[0] + 1, int(rng.integers(0, 5)))
        arrays["offsets"] = np.sort(np.concatenate([[0], starts])).astype(np.int64)
    if reduction == "sum" and rng.random() < 0.5:
        arrays["weights"] = rng.normal(size=shape)
    padding = int(rng.integers(0, rows)) if rng.random() < 0.5 else None

    def peer(
        indices: torch.Tensor, table: torch.Tensor, offsets: Any = None, weights: Any = None
    ) -> torch.Tensor:
        return functional.embedding_bag(
            indices, table, offsets, mode=reduction, per_sample_weights=weights,
            padding_idx=padding,
        )  # fmt: skip

    kwargs = {"reduction": reduction, "padding_index": padding}
    return Golden("embedding_bag", arrays, peer, kwargs)


def pdist(rng: Rng, number: int) -> Golden:
    """Return distances within a set, some of whose rows or elements of rows are equal."""
    p = (2.0, 1.0, 1.5, 3.0, 0.5, float("inf"))[number % 6]
    x = rng.normal(size=tuple(map(int, rng.integers(1, (8, 6)))))
    if p != float("inf") and len(x) > 2 and rng.random() < 0.5:
        x[0], x[2, 0] = x[1], x[1, 0]
    return Golden("pdist", {"x": x}, lambda x: functional.pdist(x, p), {"p": p})


def affine_grid(rng: Rng, number: int) -> Golden:
    """Return the grids of affine maps of two and of three axes, some of them of one pixel."""
    space, aligned = 2 + number % 2, bool(number // 2 % 2)
    size = [int(n) for n in rng.integers(1, 6, space)]
    theta = rng.normal(size=(int(rng.integers(1, 4)), space, space + 1))

    def peer(theta: torch.Tensor) -> torch.Tensor:
        whole = [len(theta), 1, *size]
        return functional.affine_grid(theta, whole, align_corners=aligned)

    return Golden("affine_grid", {"theta": theta}, peer, {"size": size, "align_corners": aligned})


def _channels_first(x: torch.Tensor, layout: str) -> torch.Tensor:
    return x if layout == "NCHW" else x.movedim(-1, 1)


def _as_given(y: torch.Tensor, layout: str) -> torch.Tensor:
    return y if layout == "NCHW" else y.movedim(1, -1)


def grid_sample(rng: Rng, number: int) -> Golden:
    """Return images at points, of which some are outside, and some at borders and pixels."""
    methods = ("linear", "nearest", "cubic", "linear of three axes", "nearest of three axes")
    method, _, more = methods[number % 5].partition(" of ")
    padding, aligned = str(rng.choice(["zeros", "border", "reflection"])), bool(rng.random() < 0.5)
    layout, space = str(rng.choice(["NHWC", "NCHW"])), 3 if more else 2
    batch, channels = map(int, rng.integers(1, 4, 2))
    sizes, out = rng.integers(1, 6, space).tolist(), rng.integers(1, 5, space).tolist()
    grid = rng.uniform(-3, 3, (batch, *out, space))
    special = rng.choice([-1.0, 1.0, 0.0, -100.0, 77.7], grid.shape)
    grid = np.where(rng.random(grid.shape) < 0.2, special, grid)
    shape = (batch, *sizes, channels) if layout == "NHWC" else (batch, channels, *sizes)
    theirs = {"linear": "bilinear", "cubic": "bicubic"}.get(method, method)

    def peer(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        first = _channels_first(x, layout)
        y = functional.grid_sample(first, grid, theirs, padding, align_corners=aligned)
        return _as_given(y, layout)

    arrays = {"x": rng.normal(size=shape), "grid": grid}
    kwargs = {"method": method, "padding": padding, "align_corners": aligned, "layout": layout}
    return Golden("grid_sample", arrays, peer, kwargs)


def _images(rng: Rng, space: int, layout: str, least: int) -> Array:
    """Return images of so many axes of space, each of `least` elements or more, some equal."""
    sizes = rng.integers(least, 7 - space + least, space).tolist()
    batch, channels = map(int, rng.integers(1, 4, 2))
    shape = (batch, *sizes, channels) if layout == "NHWC" else (batch, channels, *sizes)
    return np.asarray(rng.normal(size=shape).round(1))


def max_pool_with_indices(rng: Rng, number: int) -> Golden:
    """Return maxima and where they are, in windows that meet, with gaps and padding."""
    layout, space = str(rng.choice(["NHWC", "NCHW"])), number % 3 + 1
    window, strides = rng.integers(1, 4, space).tolist(), rng.integers(1, 4, space).tolist()
    dilation = rng.integers(1, 3, space).tolist()
    pads = [int(rng.integers(0, n // 2 + 1)) for n in window]
    x = _images(rng, space, layout, 5)

    def peer(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        pool = getattr(functional, f"max_pool{space}d")
        first = _channels_first(x, layout)
        found = pool(first, window, strides, pads, dilation, return_indices=True)
        return tuple(_as_given(y, layout) for y in found)

    kwargs = {"window": window, "strides": strides, "dilation": dilation, "layout": layout}
    kwargs["padding"] = [(n, n) for n in pads]
    return Golden("max_pool_with_indices", {"x": x}, peer, kwargs)


def max_unpool(rng: Rng, number: int) -> Golden:
    """Return maxima put where they were, in windows that do not meet."""
    layout, space = str(rng.choice(["NHWC", "NCHW"])), number % 3 + 1
    window = rng.integers(1, 4, space).tolist()
    more = rng.integers(0, 2, space).tolist()
    strides = [n + m for n, m in zip(window, more, strict=True)]
    x = torch.tensor(_images(rng, space, layout, 4))
    pool, unpool = (getattr(functional, f"max_{name}{space}d") for name in ("pool", "unpool"))
    first = _channels_first(x, layout)
    pooled, indices = pool(first, window, strides, return_indices=True)
    size = list(first.shape[2:])

    def peer(x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        given = (_channels_first(t, layout) for t in (x, indices))
        return _as_given(unpool(*given, window, strides, output_size=size), layout)

    arrays = {"x": _as_given(pooled, layout).numpy(), "indices": _as_given(indices, layout).numpy()}
    return Golden("max_unpool", arrays, peer, {"size": size, "layout": layout})


def fractional_max_pool(rng: Rng, number: int) -> Golden:
    """Return maxima of windows at places that samples give, of two and of three axes."""
    layout, space = str(rng.choice(["NHWC", "NCHW"])), number % 2 + 2
    x = _images(rng, space, layout, 5)
    sizes = x.shape[1:-1] if layout == "NHWC" else x.shape[2:]
    window = rng.integers(1, 4, space).tolist()
    # Of three axes PyTorch takes only less windows than there is room for.
    most = [n - k + (1 if space == 2 else 0) for n, k in zip(sizes, window, strict=True)]
    size = [int(rng.integers(1, m + 1)) for m in most]
    channels = x.shape[-1 if layout == "NHWC" else 1]
    samples = rng.uniform(size=(len(x), channels, space))
    samples[rng.random(samples.shape) < 0.1] = 0.0

    def peer(x: torch.Tensor, samples: torch.Tensor) -> torch.Tensor:
        pool = getattr(functional, f"fractional_max_pool{space}d")
        # Of two axes the first sample is that of the last axis.
        theirs = (samples.flip(-1) if space == 2 else samples).detach()
        y = pool(_channels_first(x, layout), window, size, _random_samples=theirs)
        return _as_given(y, layout)

    kwargs = {"window": window, "size": size, "layout": layout}
    return Golden("fractional_max_pool", {"x": x, "samples": samples}, peer, kwargs)


KINDS: dict[Callable[[Rng, int], Golden], int] = {
    embedding_bag: 24,
    pdist: 12,
    affine_grid: 8,
    grid_sample: 40,
    max_pool_with_indices: 12,
    max_unpool: 9,
    fractional_max_pool: 10,
}


def measure(golden: Golden, rng: Rng) -> dict[str, Array]:
    """Return operands, seed, result and gradients of a configuration."""
    xs = {k: torch.tensor(a, requires_grad=a.dtype.kind == "f") for k, a in golden.arrays.items()}
    found = golden.peer(**xs)
    result, *others = found if isinstance(found, tuple) else (found,)
    seed = torch.tensor(rng.normal(size=tuple(result.shape)), dtype=result.dtype)
    smooth = {name: x for name, x in xs.items() if x.requires_grad}
    grads = torch.autograd.grad(
        (result * seed).sum(), list(smooth.values()), allow_unused=True, materialize_grads=True
    )
    kept = {f"x.{name}": array for name, array in golden.arrays.items()}
    kept |= {"seed": seed.numpy(), "y.0": result.detach().numpy()}
    kept |= {f"y.{place}": y.numpy() for place, y in enumerate(others, 1)}
    return kept | {f"d.{name}": g.numpy() for name, g in zip(smooth, grads, strict=True)}


def write(target: Path, kinds: dict[Callable[[Rng, int], Golden], int]) -> None:
    """Write so many configurations of each of `kinds`, of which none depends on another kind."""
    arrays: dict[str, Array] = {}
    rows = []
    for make, count in kinds.items():
        for number in range(count):
            rng = np.random.default_rng([number, *make.__name__.encode()])
            golden, name = make(rng, number), f"{make.__name__}-{number}"
            rows.append({"name": name, "layer": golden.layer, "kwargs": golden.kwargs})
            arrays |= {f"{name}/{key}": array for key, array in measure(golden, rng).items()}
    text = json.dumps(rows)
    np.savez_compressed(target, allow_pickle=False, configs=np.array(text), **arrays)


def main() -> None:
    """Write the file."""
    assert torch.__version__.startswith("2.13"), torch.__version__
    write(TARGET, KINDS)


if __name__ == "__main__":
    main()
