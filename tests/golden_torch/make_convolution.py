"""Write what PyTorch computes of convolutions and poolings to `tests/data/`.

Run it as `python -m tests.golden_torch.make_convolution` where PyTorch 2.13 is installed; the tests
need it not. 200 random configurations each go to `torch_conv.npz`, `torch_conv_transpose.npz` and
`torch_pooling.npz`: results, and gradients of `sum(result * seed)`, in float64 and with channels
first. Operands and seeds are not written: `operand` makes them from a shape and a number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from tests.golden_torch.operands import operand

COUNT = 200
TARGET = Path(__file__).parents[1] / "data"

Array = np.ndarray[Any, Any]
Config = dict[str, Any]
_LARGEST = {1: 12, 2: 7, 3: 5}


def run(
    function: Callable[..., torch.Tensor], operands: Sequence[Array], number: int
) -> dict[str, Array]:
    """Return the result of a function and its gradients."""
    tensors = [torch.tensor(a, requires_grad=True) for a in operands]
    result = function(*tensors)
    seed = torch.tensor(operand(result.shape, number + 500))
    gradients = torch.autograd.grad((result * seed).sum(), tensors)
    found = {"y": result.detach().numpy()}
    return found | {f"d{i}": g.numpy() for i, g in enumerate(gradients)}


def draw(rng: np.random.Generator, low: int, high: int, count: int) -> list[int]:
    return [int(n) for n in rng.integers(low, high + 1, count)]


def same_pads(size: int, span: int, stride: int) -> tuple[int, int]:
    """Return TensorFlow's padding."""
    total = max((-(-size // stride) - 1) * stride + span - size, 0)
    return total // 2, total - total // 2


def pads_of(config: Config, sizes: Sequence[int]) -> list[tuple[int, int]]:
    padding = config["padding"]
    spans = [d * (k - 1) + 1 for k, d in zip(config["window"], config["dilation"], strict=True)]
    if padding == "VALID":
        return [(0, 0)] * len(sizes)
    if padding == "SAME":
        return [same_pads(*each) for each in zip(sizes, spans, config["strides"], strict=True)]
    return [tuple(pair) for pair in padding]


def pad(x: torch.Tensor, pads: Sequence[tuple[int, int]], value: float = 0.0) -> torch.Tensor:
    flat = [n for pair in reversed(pads) for n in pair]
    return functional.pad(x, flat, value=value)


def named(name: str, space: int) -> Callable[..., torch.Tensor]:
    found: Callable[..., torch.Tensor] = getattr(functional, f"{name}{space}d")
    return found


def draw_windows(rng: np.random.Generator, space: int, most_padding: int) -> Config:
    """Return windows, strides, dilation, padding, and sizes in which they have room."""
    window, strides = draw(rng, 1, 3, space), draw(rng, 1, 3, space)
    dilation = draw(rng, 1, 2, space) if rng.random() < 0.5 else [1] * space
    kind = rng.choice(["VALID", "SAME", "pairs"])
    spans = [d * (k - 1) + 1 for k, d in zip(window, dilation, strict=True)]
    if kind == "pairs":
        padding: Any = [draw(rng, 0, min(most_padding, span - 1), 2) for span in spans]
    else:
        padding = str(kind)
    sizes = [int(rng.integers(span, max(span, _LARGEST[space]) + 1)) for span in spans]
    return {"window": window, "strides": strides, "dilation": dilation, "padding": padding,
            "sizes": sizes}  # fmt: skip


def draw_conv(rng: np.random.Generator, number: int) -> Config:
    space = number % 3 + 1
    groups = int(rng.choice([1, 1, 2, 3]))
    config = draw_windows(rng, space, 3)
    inside, out = groups * int(rng.integers(1, 3)), groups * int(rng.integers(1, 3))
    return config | {
        "layout": str(rng.choice(["NHWC", "NCHW"])), "bias": bool(rng.random() < 0.5),
        "groups": groups, "channels": [inside, out], "batch": int(rng.integers(1, 3)),
    }  # fmt: skip


def make_conv(rng: np.random.Generator, number: int) -> tuple[Config, dict[str, Array]]:
    config = draw_conv(rng, number)
    inside, out = config["channels"]
    shapes = [(config["batch"], inside, *config["sizes"]),
              (out, inside // config["groups"], *config["window"])]  # fmt: skip
    shapes += [(out,)] * config["bias"]
    pads = pads_of(config, config["sizes"])

    def function(x: torch.Tensor, kernel: torch.Tensor, *bias: torch.Tensor) -> torch.Tensor:
        return named("conv", len(pads))(
            pad(x, pads), kernel, *bias, stride=config["strides"], dilation=config["dilation"],
            groups=config["groups"],
        )  # fmt: skip

    operands = [operand(shape, number + i) for i, shape in enumerate(shapes)]
    return config | {"shapes": shapes}, run(function, operands, number)


def make_transpose(rng: np.random.Generator, number: int) -> tuple[Config, dict[str, Array]]:
    config = draw_conv(rng, number)
    space = len(config["window"])
    spans = [d * (k - 1) + 1 for k, d in zip(config["window"], config["dilation"], strict=True)]
    sizes = draw(rng, 1, _LARGEST[space] - 1, space)
    whole = [(n - 1) * s + k for n, s, k in zip(sizes, config["strides"], spans, strict=True)]
    limits = [max(s, d) - 1 for s, d in zip(config["strides"], config["dilation"], strict=True)]
    extra = [int(rng.integers(0, limit + 1)) for limit in limits]
    if config["padding"] == "SAME":
        # The padding of the convolution whose adjoint it is, and as many zeros as are missing.
        extra = [0] * space
        pads = [same_pads(n * s, k, s)
                for n, s, k in zip(sizes, config["strides"], spans, strict=True)]  # fmt: skip
        each = zip(sizes, config["strides"], whole, pads, strict=True)
        more = [n * s - (w - sum(p)) for n, s, w, p in each]
    else:
        pads = pads_of(config, whole)
        pads = [(b, min(a, w - b - 1)) if b < w else (0, 0)
                for (b, a), w in zip(pads, whole, strict=True)]  # fmt: skip
        more = extra
        if config["padding"] != "VALID":
            config["padding"] = pads
    inside, out = config["channels"]
    shapes = [(config["batch"], inside, *sizes),
              (inside, out // config["groups"], *config["window"])]  # fmt: skip
    shapes += [(out,)] * config["bias"]

    def function(x: torch.Tensor, kernel: torch.Tensor, *bias: torch.Tensor) -> torch.Tensor:
        y = named("conv_transpose", space)(
            x, kernel, stride=config["strides"], dilation=config["dilation"],
            groups=config["groups"],
        )  # fmt: skip
        y = pad(y, [(-b, n - a) for (b, a), n in zip(pads, more, strict=True)])
        return y + bias[0].reshape(-1, *[1] * space) if bias else y

    operands = [operand(shape, number + i) for i, shape in enumerate(shapes)]
    config |= {"sizes": sizes, "output_padding": extra, "shapes": shapes}
    return config, run(function, operands, number)


_POOLINGS = ("max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool", "unfold", "fold")


def make_pooling(rng: np.random.Generator, number: int) -> tuple[Config, dict[str, Array]]:
    name = _POOLINGS[number % len(_POOLINGS)] if number % 3 else _POOLINGS[number % 2]
    space = 2 if name in ("unfold", "fold") else int(rng.integers(1, 4))
    config = draw_windows(rng, space, 2) | {
        "name": name, "layout": str(rng.choice(["NHWC", "NCHW"])),
        "count_padding": bool(rng.random() < 0.3),
    }  # fmt: skip
    shape = (int(rng.integers(1, 3)), int(rng.integers(1, 5)), *config["sizes"])
    if name.startswith("adaptive"):
        config["size"] = [int(rng.integers(1, n + 1)) for n in config["sizes"]]
    function = pooling(name, config, space)
    if name == "fold":
        windows = pooling("unfold", config, space)(torch.zeros(shape))
        shape = tuple(windows.shape)
    levels = 4 if "max" in name and rng.random() < 0.5 else 0
    config |= {"levels": levels, "shapes": [shape]}
    return config, run(function, [operand(shape, number, levels)], number)


def pooling(name: str, config: Config, space: int) -> Callable[..., torch.Tensor]:
    """Return a pooling as a function; unfold gives (n, c, *window, *out)."""
    pads = pads_of(config, config["sizes"])
    window, steps, gaps = config["window"], config["strides"], config["dilation"]

    def max_pool(x: torch.Tensor) -> torch.Tensor:
        padded = pad(x, pads, -torch.inf)
        return named("max_pool", space)(padded, window, steps, 0, gaps)

    def sums(x: torch.Tensor) -> torch.Tensor:
        ones = torch.ones(x.shape[1], 1, *window, dtype=x.dtype)
        return named("conv", space)(x, ones, stride=steps, dilation=gaps, groups=x.shape[1])

    def avg_pool(x: torch.Tensor) -> torch.Tensor:
        counted = (
            torch.ones_like(pad(x, pads))
            if config["count_padding"]
            else pad(torch.ones_like(x), pads)
        )
        return sums(pad(x, pads)) / sums(counted)

    def unfold(x: torch.Tensor) -> torch.Tensor:
        padded = pad(x, pads)
        columns = functional.unfold(padded, window, dilation=gaps, stride=steps)
        spans = [d * (k - 1) + 1 for k, d in zip(window, gaps, strict=True)]
        out = [(n - k) // s + 1 for n, k, s in zip(padded.shape[2:], spans, steps, strict=True)]
        return columns.reshape(x.shape[0], x.shape[1], *window, *out)

    def fold(y: torch.Tensor) -> torch.Tensor:
        sizes = [n + sum(p) for n, p in zip(config["sizes"], pads, strict=True)]
        columns = y.reshape(y.shape[0], y.shape[1] * int(np.prod(window)), -1)
        whole = functional.fold(columns, sizes, window, dilation=gaps, stride=steps)
        return pad(whole, [(-b, -a) for b, a in pads])

    if name.startswith("adaptive"):
        return lambda x: named(name, space)(x, config["size"])
    own = {"max_pool": max_pool, "avg_pool": avg_pool, "unfold": unfold, "fold": fold}
    return own[name]


def main() -> None:
    parts = {"conv": make_conv, "conv_transpose": make_transpose, "pooling": make_pooling}
    TARGET.mkdir(exist_ok=True)
    for seed, (part, make) in enumerate(parts.items()):
        rng = np.random.default_rng(seed)
        made = [make(rng, number) for number in range(COUNT)]
        arrays = {f"{key}_{i}": a for i, (_, found) in enumerate(made) for key, a in found.items()}
        arrays["configs"] = np.array(json.dumps([config for config, _ in made]))
        np.savez_compressed(TARGET / f"torch_{part}.npz", **arrays)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
