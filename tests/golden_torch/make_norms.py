"""Write what PyTorch computes of norms, activations and resampling to `tests/data/torch_norms.npz`.

Norms are local response norms and Lp poolings too. Run it as
`python tests/golden_torch/make_norms.py` where PyTorch 2.13 is installed; the tests need it not.
Values and gradients are float64, the gradients those of `sum(result * seed)`. Each configuration is
the call of a function of `sg.nn`: its name, its arguments by keyword, and arrays for the others, in
the layout that the call names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

NORMS = 60
RESIZED = 48
TARGET = Path(__file__).parents[1] / "data" / "torch_norms.npz"

Array = np.ndarray[Any, Any]
Config = dict[str, Any]
Function = Callable[..., Any]
Golden = tuple[Config, list[Array], Function]


def channels_first(x: torch.Tensor, layout: str) -> torch.Tensor:
    """Return `x` with the channels at axis 1, where PyTorch has them."""
    return x if layout == "NCHW" else x.movedim(-1, 1)


def as_given(y: torch.Tensor, layout: str) -> torch.Tensor:
    """Return `y`, whose channels are at axis 1, in `layout`."""
    return y if layout == "NCHW" else y.movedim(1, -1)


def in_layout(layout: str, batch: int, channels: int, spatial: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of a batch of images."""
    return (batch, *spatial, channels) if layout == "NHWC" else (batch, channels, *spatial)


# ------------------------------------------------------------------------------------------ norms


def over_axes(x: torch.Tensor, axes: Sequence[int], norm: Function) -> torch.Tensor:
    """Return what `norm` makes of `x` with `axes` moved to the end, moved back."""
    last = list(range(-len(axes), 0))
    return norm(x.movedim(list(axes), last)).movedim(last, list(axes))


def layer_or_rms(rng: np.random.Generator, name: str) -> Golden:
    """Return a layer norm or an RMS norm over one axis or two."""
    shape = tuple(map(int, rng.integers(2, 7, int(rng.integers(2, 5)))))
    count = int(rng.integers(1, min(3, len(shape) - 1) + 1))
    axes = sorted(map(int, rng.permutation(len(shape))[:count]))
    if rng.random() < 0.5:
        axes = list(range(len(shape) - count, len(shape)))
    sizes = tuple(shape[a] for a in axes)
    epsilon = float(rng.choice([1e-5, 1e-3, 1e-6]))
    arrays = [rng.normal(rng.normal(), 2, shape)]
    given = int(rng.integers(0, 3 if name == "layer_norm" else 2))
    arrays += [rng.normal(size=sizes) for _ in range(given)]

    def call(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        norm = getattr(functional, name)
        return over_axes(x, axes, lambda moved: norm(moved, sizes, *weights, eps=epsilon))

    return {"layer": name, "kwargs": {"axis": axes, "epsilon": epsilon}}, arrays, call


def group_or_instance(rng: np.random.Generator, name: str) -> Golden:
    """Return a group norm or an instance norm of up to three spatial axes."""
    layout = str(rng.choice(["NHWC", "NCHW"]))
    groups, each = map(int, rng.integers(1, 4, 2))
    spatial = tuple(map(int, rng.integers(2, 5, int(rng.integers(1, 4)))))
    shape = in_layout(layout, int(rng.integers(1, 4)), groups * each, spatial)
    epsilon = float(rng.choice([1e-5, 1e-3]))
    arrays = [rng.normal(rng.normal(), 2, shape)]
    arrays += [rng.normal(size=groups * each) for _ in range(int(rng.integers(0, 3)))]
    kwargs: Config = {"epsilon": epsilon, "layout": layout}
    if name == "group_norm":
        kwargs["groups"] = groups

    def call(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        moved = channels_first(x, layout)
        if name == "group_norm":
            y = functional.group_norm(moved, groups, *weights, eps=epsilon)
        else:
            scale, bias = (*weights, None, None)[:2]
            y = functional.instance_norm(moved, weight=scale, bias=bias, eps=epsilon)
        return as_given(y, layout)

    return {"layer": name, "kwargs": kwargs}, arrays, call


def batch_norm(rng: np.random.Generator, _name: str) -> Golden:
    """Return a batch norm, in training or not, whose results are y and the new statistics."""
    layout, training = str(rng.choice(["NHWC", "NCHW"])), bool(rng.random() < 0.6)
    channels, batch = int(rng.integers(1, 5)), int(rng.integers(2, 5))
    spatial = tuple(map(int, rng.integers(1, 4, int(rng.integers(0, 3)))))
    arrays = [
        rng.normal(rng.normal(), 2, in_layout(layout, batch, channels, spatial)),
        rng.normal(size=channels),
        rng.uniform(0.5, 2, channels),
    ]
    arrays += [rng.normal(size=channels) for _ in range(int(rng.choice([0, 2])))]
    momentum, epsilon = float(rng.choice([0.9, 0.99, 0.5])), float(rng.choice([1e-5, 1e-3]))

    def call(x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor, *w: torch.Tensor) -> Any:
        # The running statistics are moved in place.
        moved = [mean.detach().clone(), variance.detach().clone()] if training else [mean, variance]
        scale, bias = (*w, None, None)[:2]
        y = functional.batch_norm(
            channels_first(x, layout), *moved, scale, bias, training=training,
            momentum=1 - momentum, eps=epsilon,
        )  # fmt: skip
        return [as_given(y, layout), *(moved if training else [])]

    kwargs = {
        "training": training,
        "momentum": momentum,
        "epsilon": epsilon,
        "axis": -1 if layout == "NHWC" else 1,
    }
    return {"layer": "batch_norm", "kwargs": kwargs}, arrays, call


def normalize(rng: np.random.Generator, _name: str) -> Golden:
    """Return rows of length 1, of which one was almost 0."""
    shape = tuple(map(int, rng.integers(2, 6, int(rng.integers(1, 4)))))
    axis, epsilon = int(rng.integers(-len(shape), len(shape))), float(rng.choice([1e-12, 0.3]))
    x = rng.normal(size=shape)
    if epsilon == 0.3:
        np.moveaxis(x, axis, -1)[(0,) * (len(shape) - 1)] *= 1e-3

    def call(x: torch.Tensor) -> torch.Tensor:
        return functional.normalize(x, dim=axis, eps=epsilon)

    return {"layer": "normalize", "kwargs": {"axis": axis, "epsilon": epsilon}}, [x], call


KINDS: tuple[tuple[str, Function], ...] = (
    ("layer_norm", layer_or_rms),
    ("rms_norm", layer_or_rms),
    ("group_norm", group_or_instance),
    ("batch_norm", batch_norm),
    ("instance_norm", group_or_instance),
    ("normalize", normalize),
)

# ------------------------------------------------------------------------------------ activations

ACTIVATIONS: tuple[tuple[str, Config, Function], ...] = (
    ("relu", {}, functional.relu),
    ("relu6", {}, functional.relu6),
    ("leaky_relu", {}, functional.leaky_relu),
    ("elu", {"alpha": 1.5}, lambda x: functional.elu(x, 1.5)),
    ("selu", {}, functional.selu),
    ("celu", {"alpha": 1.5}, lambda x: functional.celu(x, 1.5)),
    ("gelu", {}, functional.gelu),
    ("gelu", {"approximate": True}, lambda x: functional.gelu(x, approximate="tanh")),
    ("silu", {}, functional.silu),
    ("mish", {}, functional.mish),
    ("softplus", {}, functional.softplus),
    ("log_sigmoid", {}, functional.logsigmoid),
    ("softsign", {}, functional.softsign),
    ("hard_shrink", {}, functional.hardshrink),
    ("hard_shrink", {"bound": 1.0}, lambda x: functional.hardshrink(x, 1.0)),
    ("soft_shrink", {}, functional.softshrink),
    ("tanh_shrink", {}, functional.tanhshrink),
    ("softmin", {"axis": 0}, lambda x: functional.softmin(x, 0)),
    ("softmax", {"axis": 0}, lambda x: functional.softmax(x, 0)),
    ("log_softmax", {"axis": 0}, lambda x: functional.log_softmax(x, 0)),
    ("glu", {"axis": 0}, lambda x: functional.glu(x, 0)),
)
# Exact in float32, so that none crosses a kink by being rounded.
_KINKS = np.array([0.5, -0.5, 1, 6, 0])
_RANGES = (np.linspace(-30, 30, 41), np.linspace(-3.1, 6.2, 32), _KINKS)
POINTS = np.concatenate(_RANGES).astype(np.float32).astype(np.float64)


def activations(rng: np.random.Generator) -> Iterator[Golden]:
    """Yield each activation at points on both sides of its kinks, and at these."""
    for name, kwargs, call in ACTIVATIONS:
        yield {"layer": name, "kwargs": kwargs}, [POINTS], call
    slopes = rng.normal(size=3)
    x = np.concatenate([np.zeros((1, 3)), rng.normal(size=(5, 3))])
    yield {"layer": "prelu", "kwargs": {}}, [x, slopes], lambda x, a: functional.prelu(x, a)
    weight, bias = rng.normal(size=(3, 2, 4)), rng.normal(size=4)
    operands = [rng.normal(size=(5, 3)), rng.normal(size=(5, 2)), weight, bias]
    yield (
        {"layer": "bilinear", "kwargs": {}},
        operands,
        lambda x, y, w, b: functional.bilinear(x, y, w.movedim(-1, 0), b),
    )


# ------------------------------------------------------------------------------------- resampling


def resized(rng: np.random.Generator, number: int) -> Golden:
    """Return an interpolation; PyTorch has the cubic one for two spatial axes only."""
    method = ("nearest", "linear", "cubic")[number % 3]
    count = 2 if method == "cubic" else int(rng.integers(1, 4))
    layout, aligned = str(rng.choice(["NHWC", "NCHW"])), bool(rng.random() < 0.5)
    aligned = aligned and method != "nearest"
    spatial = tuple(map(int, rng.integers(1, 7 if count < 3 else 4, count)))
    size = tuple(map(int, rng.integers(1, 10 if count < 3 else 6, count)))
    shape = in_layout(layout, int(rng.integers(1, 3)), int(rng.integers(1, 4)), spatial)
    mode = {"nearest": "nearest", "linear": ("", "linear", "bilinear", "trilinear")[count]}
    name = mode.get(method, "bicubic")

    def call(x: torch.Tensor) -> torch.Tensor:
        extra = {} if method == "nearest" else {"align_corners": aligned}
        y = functional.interpolate(channels_first(x, layout), size, mode=name, **extra)
        return as_given(y, layout)

    kwargs = {"size": size, "method": method, "align_corners": aligned, "layout": layout}
    return {"layer": "interpolate", "kwargs": kwargs}, [rng.normal(size=shape)], call


def shuffles(rng: np.random.Generator) -> Iterator[Golden]:
    """Yield pixel shuffles and channel shuffles in both layouts."""
    for layout in ("NHWC", "NCHW"):
        for name, channels, spatial, key, value in (
            ("pixel_shuffle", 8, (2, 3), "factor", 2),
            ("pixel_unshuffle", 2, (6, 3), "factor", 3),
            ("channel_shuffle", 6, (2, 3), "groups", 3),
        ):
            x = rng.normal(size=in_layout(layout, 2, channels, spatial))
            config = {"layer": name, "kwargs": {key: value, "layout": layout}}
            yield config, [x], shuffled(name, value, layout)


def shuffled(name: str, value: int, layout: str) -> Function:
    """Return PyTorch's function for operands in `layout`."""
    function = getattr(functional, name)
    return lambda x: as_given(function(channels_first(x, layout), value), layout)


# ----------------------------------------------------------------------- powers of neighbourhoods


def response_norm(rng: np.random.Generator) -> Golden:
    """Return a local response norm over some of the channels, or over more than there are."""
    layout, size = str(rng.choice(["NHWC", "NCHW"])), int(rng.integers(1, 8))
    spatial = tuple(map(int, rng.integers(1, 4, int(rng.integers(1, 4)))))
    x = rng.normal(0, 2, in_layout(layout, 2, int(rng.integers(1, 7)), spatial))
    kwargs = {
        "size": size,
        "alpha": float(rng.choice([1e-4, 0.5])),
        "beta": float(rng.choice([0.75, 1.5])),
        "k": float(rng.choice([1, 2])),
    }

    def call(x: torch.Tensor) -> torch.Tensor:
        return as_given(functional.local_response_norm(channels_first(x, layout), **kwargs), layout)

    return {"layer": "local_response_norm", "kwargs": {**kwargs, "layout": layout}}, [x], call


def lp_pool(rng: np.random.Generator, number: int) -> Golden:
    """Return an Lp pooling, whose operand has windows of zeros if they have a gradient."""
    p = (2, 1.0, 3, 1.5, 0.5, float("inf"))[number % 6]
    layout, count = str(rng.choice(["NHWC", "NCHW"])), int(rng.integers(1, 4))
    spatial = tuple(map(int, rng.integers(3, 6, count)))
    x = np.abs(rng.normal(0, 2, in_layout(layout, 2, 3, spatial))) + 0.05
    if p in (2, float("inf")):
        x *= rng.choice([-1, 1], x.shape)
    if 1 <= p <= 3:
        x[0, :2] = 0.0
    window = tuple(map(int, rng.integers(1, 4, count)))
    strides = tuple(map(int, rng.integers(1, 3, count))) if rng.random() < 0.5 else None

    def call(x: torch.Tensor) -> torch.Tensor:
        pool = getattr(functional, f"lp_pool{count}d")
        # In one dimension PyTorch wants numbers.
        size, steps = (t[0] if t and count == 1 else t for t in (window, strides))
        return as_given(pool(channels_first(x, layout), p, size, steps), layout)

    kwargs = {"p": p, "window": window, "strides": strides, "layout": layout}
    return {"layer": "lp_pool", "kwargs": kwargs}, [x], call


# --------------------------------------------------------------------------------------- the file


def record(golden: Golden, rng: np.random.Generator) -> tuple[Config, dict[str, Array]]:
    """Return a configuration with its arrays: operands, seed, results and gradients."""
    config, arrays, call = golden
    # Of running statistics PyTorch has no gradients.
    fixed = (1, 2) if config["layer"] == "batch_norm" else ()
    xs = [torch.tensor(a, requires_grad=k not in fixed) for k, a in enumerate(arrays)]
    found = call(*xs)
    results = found if isinstance(found, list) else [found]
    seed = torch.tensor(rng.normal(size=tuple(results[0].shape)))
    smooth = {k: x for k, x in enumerate(xs) if k not in fixed}
    grads = torch.autograd.grad((results[0] * seed).sum(), list(smooth.values()))
    config["operands"], config["results"] = len(xs), len(results)
    kept = {f"x{k}": a for k, a in enumerate(arrays)} | {"seed": seed.numpy()}
    kept |= {f"y{k}": y.detach().numpy() for k, y in enumerate(results)}
    kept |= {f"dx{k}": g.numpy() for k, g in zip(smooth, grads, strict=True)}
    return config, kept


def main() -> None:
    """Write the file."""
    assert torch.__version__.startswith("2.13"), torch.__version__
    rng = np.random.default_rng(12)
    kinds = [KINDS[n % len(KINDS)] for n in range(NORMS)]
    goldens = [make(rng, name) for name, make in kinds]
    goldens += [*activations(rng), *(resized(rng, n) for n in range(RESIZED)), *shuffles(rng)]
    more = np.random.default_rng(13)  # which leaves what is drawn for the others as it was
    goldens += [*(response_norm(more) for _ in range(8)), *(lp_pool(more, n) for n in range(12))]
    arrays: dict[str, Array] = {}
    configs = []
    for number, golden in enumerate(goldens):
        config, kept = record(golden, rng)
        configs.append(config)
        arrays |= {f"{number}/{name}": array for name, array in kept.items()}
    text = json.dumps(configs)
    np.savez_compressed(TARGET, allow_pickle=False, configs=np.array(text), **arrays)


if __name__ == "__main__":
    main()
