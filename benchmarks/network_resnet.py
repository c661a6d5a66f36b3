"""ResNet-18 on images of 32 x 32 pixels, for `benchmarks/networks.py`.

The stem is one convolution of 3 x 3, as is usual for images of this size. Four stages of two
blocks with 64, 128, 256 and 512 channels, batch norm by the statistics of the batch, a batch of 16,
float32, channels last; PyTorch has them in memory in that order too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.network_peers import Arrays, Network, torch_images
from benchmarks.timing import optional

BATCH, SIZE, CLASSES = 16, 32, 10
WIDTHS, QUICK_WIDTHS = (64, 128, 256, 512), (4, 8)
EPSILON = 1e-5

Conv = Callable[..., Any]  # of an input, the name of a layer and strides


def _layers(widths: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the name of each convolution, with the shape of its kernel."""
    yield "stem", (3, 3, 3, widths[0])
    for stage, width in enumerate(widths):
        before = widths[max(stage - 1, 0)]
        for number, inputs in enumerate((before, width)):
            yield f"{stage}{number}a", (3, 3, inputs, width)
            yield f"{stage}{number}b", (3, 3, width, width)
            if inputs != width:
                yield f"{stage}{number}s", (1, 1, inputs, width)


def _make(quick: bool) -> tuple[Arrays, Arrays]:
    widths, batch, size = (QUICK_WIDTHS, 4, 8) if quick else (WIDTHS, BATCH, SIZE)
    weights = {}
    for seed, (name, shape) in enumerate(_layers(widths)):
        weights[name] = sg.nn.init.he_normal(shape, seed=seed)
        weights[f"{name}_scale"] = np.ones(shape[-1], np.float32)
        weights[f"{name}_bias"] = np.zeros(shape[-1], np.float32)
    weights["last"] = sg.nn.init.glorot_normal((widths[-1], CLASSES), seed=0)
    random = np.random.default_rng(1)
    x = random.normal(size=(batch, size, size, 3)).astype(np.float32)
    return weights, {"x": x, "labels": random.integers(0, CLASSES, batch)}


def _blocks(w: Any, x: Any, conv: Conv, relu: Callable[[Any], Any]) -> Any:
    """Return what the blocks make of `x`, where `conv` has a batch norm behind it."""
    x = relu(conv(x, "stem", 1))
    for name in [key[:-1] for key in w if key[0].isdigit() and key.endswith("a")]:
        strides = 2 if f"{name}s" in w else 1
        y = conv(relu(conv(x, f"{name}a", strides)), f"{name}b", 1)
        x = relu(y + (conv(x, f"{name}s", strides) if f"{name}s" in w else x))
    return x


def _symgrad(w: Any, batch: Any) -> Any:
    def conv(x: Any, name: str, strides: int) -> Any:
        pads = [(w[name].shape[0] // 2,) * 2] * 2
        y = sg.nn.conv2d(x, w[name], strides=strides, padding=pads)
        scale, bias = w[f"{name}_scale"], w[f"{name}_bias"]
        return sg.nn.batch_norm(y, None, None, scale, bias, training=True, epsilon=EPSILON)[0]

    x = _blocks(w, batch["x"], conv, sg.nn.relu)
    return sg.nn.cross_entropy(sg.mean(x, axis=(1, 2)) @ w["last"], batch["labels"])


def _jax(w: Any, batch: Any) -> Any:
    jax = optional("jax")

    def conv(x: Any, name: str, strides: int) -> Any:
        pads, axes = [(w[name].shape[0] // 2,) * 2] * 2, ("NHWC", "HWIO", "NHWC")
        y = jax.lax.conv_general_dilated(x, w[name], (strides,) * 2, pads, dimension_numbers=axes)
        mean, variance = y.mean((0, 1, 2)), y.var((0, 1, 2))
        normal = (y - mean) * jax.lax.rsqrt(variance + EPSILON)
        return normal * w[f"{name}_scale"] + w[f"{name}_bias"]

    x = _blocks(w, batch["x"], conv, jax.nn.relu)
    scores = jax.nn.log_softmax(x.mean((1, 2)) @ w["last"])
    return -jax.numpy.take_along_axis(scores, batch["labels"][:, None], axis=1).mean()


def _torch(weights: Arrays, batch: Arrays) -> tuple[list[Any], Callable[[], Any]]:
    functional = optional("torch").nn.functional
    w, images, labels = torch_images(weights, batch)

    def conv(x: Any, name: str, strides: int) -> Any:
        kernel = w[name]
        y = functional.conv2d(x, kernel, stride=strides, padding=kernel.shape[-1] // 2)
        scale, bias = w[f"{name}_scale"], w[f"{name}_bias"]
        return functional.batch_norm(y, None, None, scale, bias, training=True, eps=EPSILON)

    def loss() -> Any:
        x = _blocks(w, images, conv, functional.relu)
        return functional.cross_entropy(x.mean((2, 3)) @ w["last"], labels)

    return list(w.values()), loss


RESNET = Network("ResNet-18", _make, _symgrad, _jax, _torch)
