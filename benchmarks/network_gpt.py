"""A small GPT, for `benchmarks/networks.py`.

    2 blocks of 256 with 4 heads over 128 characters of 96, a batch of 8, float32

Norms stand before attention and before the two layers between which gelu, by tanh, is. Attention
is what each library has for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.network_peers import Arrays, Network, random_weights
from benchmarks.timing import optional

LAYERS, HEADS, WIDTH, CONTEXT, BATCH, CHARACTERS = 2, 4, 256, 128, 8, 96


def make_gpt(layers: int, width: int, quick: bool) -> tuple[Arrays, Arrays]:
    """Return the weights of so many blocks of a width, and a batch of text."""
    width, context = (16, 8) if quick else (width, CONTEXT)
    shapes: dict[str, tuple[int, ...]] = {
        "characters": (CHARACTERS, width),
        "places": (context, width),
        "write": (width, CHARACTERS),
    }
    for i in range(layers):
        shapes |= {
            f"qkv{i}": (width, 3 * width), f"join{i}": (width, width),
            f"widen{i}": (width, 4 * width), f"inner{i}": (4 * width,),
            f"narrow{i}": (4 * width, width), f"outer{i}": (width,),
        }  # fmt: skip
    weights = random_weights(shapes)
    for name in ("last", *(f"{norm}{i}" for norm in ("before", "between") for i in range(layers))):
        weights |= {f"{name}_scale": np.ones(width, np.float32)}
        weights |= {f"{name}_bias": np.zeros(width, np.float32)}
    text = np.random.default_rng(1).integers(0, CHARACTERS, (BATCH, context + 1))
    return weights, {"text": text}


def gpt_blocks(
    w: Any,
    x: Any,
    norm: Any,
    attend: Any,
    gelu: Any,
    reshape: Any = lambda t, shape: t.reshape(shape),
) -> Any:
    """Return logits: what is written alike in all libraries."""
    batch, time, width = x.shape
    for i in range(sum(name.startswith("qkv") for name in w)):
        heads = reshape(norm(x, w, f"before{i}") @ w[f"qkv{i}"], (batch, time, 3, HEADS, -1))
        joined = attend(*(heads[:, :, part] for part in range(3)))
        x = x + reshape(joined, (batch, time, width)) @ w[f"join{i}"]
        inner = gelu(norm(x, w, f"between{i}") @ w[f"widen{i}"] + w[f"inner{i}"])
        x = x + inner @ w[f"narrow{i}"] + w[f"outer{i}"]
    return norm(x, w, "last") @ w["write"]


def _symgrad(w: Any, batch: Any) -> Any:
    text = batch["text"]

    def norm(x: Any, w: Any, name: str) -> Any:
        return sg.nn.layer_norm(x, w[f"{name}_scale"], w[f"{name}_bias"])

    def attend(*qkv: Any) -> Any:
        heads = (sg.swapaxes(t, 1, 2) for t in qkv)
        return sg.swapaxes(sg.nn.scaled_dot_product_attention(*heads, causal=True), 1, 2)

    x = sg.nn.embedding(text[:, :-1], w["characters"]) + w["places"]
    logits = gpt_blocks(w, x, norm, attend, lambda x: sg.nn.gelu(x, approximate=True))
    return sg.nn.cross_entropy(logits, text[:, 1:])


def _jax(w: Any, batch: Any) -> Any:
    jax = optional("jax")
    jnp, text = jax.numpy, batch["text"]

    def norm(x: Any, w: Any, name: str) -> Any:
        return jax.nn.standardize(x, axis=-1, epsilon=1e-5) * w[f"{name}_scale"] + w[f"{name}_bias"]

    def attend(*qkv: Any) -> Any:
        return jax.nn.dot_product_attention(*qkv, is_causal=True)

    x = w["characters"][text[:, :-1]] + w["places"]
    scores = jax.nn.log_softmax(gpt_blocks(w, x, norm, attend, jax.nn.gelu))
    return -jnp.take_along_axis(scores, text[:, 1:, None], axis=2).mean()


def gpt_in_torch(w: Any, batch: Any) -> Any:
    """Return the loss in PyTorch, of dicts of tensors."""
    functional, text = optional("torch").nn.functional, batch["text"]

    def norm(x: Any, w: Any, name: str) -> Any:
        return functional.layer_norm(x, x.shape[-1:], w[f"{name}_scale"], w[f"{name}_bias"])

    def attend(*qkv: Any) -> Any:
        heads = (t.transpose(1, 2) for t in qkv)
        return functional.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2)

    x = functional.embedding(text[:, :-1], w["characters"]) + w["places"]
    logits = gpt_blocks(w, x, norm, attend, lambda x: functional.gelu(x, approximate="tanh"))
    return functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())


def _torch(weights: Arrays, batch: Arrays) -> tuple[list[Any], Callable[[], Any]]:
    torch = optional("torch")
    w = {name: torch.nn.Parameter(torch.tensor(array)) for name, array in weights.items()}
    text = torch.tensor(batch["text"])
    return list(w.values()), lambda: gpt_in_torch(w, {"text": text})


GPT = Network("GPT", partial(make_gpt, LAYERS, WIDTH), _symgrad, _jax, _torch)
