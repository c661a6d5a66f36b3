"""Write what PyTorch computes of 50 attentions to `tests/data/torch_attention.npz`.

Run it as `python tests/golden_torch/make_attention.py` where PyTorch 2.13 is installed; the tests
need it not. Values and gradients are float64, the gradients those of `sum(result * seed)`. Half of
the configurations are of scaled dot-product attention, and half of multi-head attention: of these,
every other one is PyTorch's own `multi_head_attention_forward`, which has no grouped heads, and the
others are projections around its scaled dot-product attention.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

COUNT = 50
TARGET = Path(__file__).parents[1] / "data" / "torch_attention.npz"

Array = np.ndarray[Any, Any]
Config = dict[str, Any]


def draw_mask(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Array | None:
    """Return a mask of `kind`: of bools, one of which hides all keys of a query, or of numbers."""
    if kind == "none":
        return None
    seen = rng.random(shape) < 0.7
    if kind == "bool":
        return seen
    if kind == "hiding":
        seen[..., 0, :] = False
        return seen
    added = rng.normal(size=shape)
    return np.where(seen, added, -np.inf) if kind == "infinite" else added


def whole_mask(
    given: torch.Tensor | None, causal: bool, queries: int, keys: int
) -> torch.Tensor | None:
    """Return mask and causality in one: PyTorch takes only one of the two."""
    if not causal:
        return given
    earlier = torch.ones(queries, keys, dtype=torch.bool).tril()
    if given is None:
        return earlier
    return given & earlier if given.dtype == torch.bool else given.masked_fill(~earlier, -torch.inf)


def configure(rng: np.random.Generator, number: int) -> tuple[Config, dict[str, Array]]:
    """Return a configuration and its operands."""
    is_own = number % 4 == 1
    key_heads, group = int(rng.integers(1, 4)), 1 if is_own else int(rng.choice([1, 2, 3]))
    batch = tuple(map(int, rng.integers(1, 4, 1 if is_own else int(rng.integers(0, 3)))))
    kind = ("none", "bool", "hiding", "added", "infinite")[number % 5]
    layer = "multi_head_attention" if number % 2 else "scaled_dot_product_attention"
    config = {
        "layer": layer,
        "is_own": is_own,
        "heads": key_heads * group,
        "key_heads": key_heads,
        "causal": bool(rng.random() < 0.5),
        "mask": kind,
    }
    if number % 2 == 0:
        config["scale"] = float(rng.uniform(0.1, 2)) if rng.random() < 0.4 else None
    shapes = configured_shapes(rng, config, batch)
    operands = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    leads = [(*batch, key_heads * group), (*batch, 1), (1,), ()]
    lead = leads[int(rng.integers(4))]
    mask = draw_mask(rng, kind, (*lead, shapes["q"][-2], shapes["k"][-2]))
    return config, operands | ({} if mask is None else {"mask": mask})


def configured_shapes(
    rng: np.random.Generator, config: Config, batch: tuple[int, ...]
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the operands, and that of the result as `seed`."""
    heads, key_heads = config["heads"], config["key_heads"]
    queries, keys, width, value_width = map(int, rng.integers(1, 8, 4))
    if config["layer"] == "scaled_dot_product_attention":
        return {
            "q": (*batch, heads, queries, width),
            "k": (*batch, key_heads, keys, width),
            "v": (*batch, key_heads, keys, value_width),
            "seed": (*batch, heads, queries, value_width),
        }
    features = heads * width
    outputs = features if config["is_own"] else 4
    value_width = width if config["is_own"] else value_width
    shapes = {
        "q": (*batch, queries, features), "k": (*batch, keys, 4), "v": (*batch, keys, 3),
        "wq": (features, features), "wk": (4, key_heads * width),
        "wv": (3, key_heads * value_width), "wo": (heads * value_width, outputs),
        "seed": (*batch, queries, outputs),
    }  # fmt: skip
    if rng.random() < 0.6:
        shapes |= {f"b{name[1]}": size[1:] for name, size in shapes.items() if name[0] == "w"}
    return shapes


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, scale: Any
) -> torch.Tensor:
    """Return PyTorch's attention, of grouped heads where those of `k` are fewer."""
    enabled = {"enable_gqa": True} if q.shape[-3] != k.shape[-3] else {}
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, **enabled)


def project(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, heads: int) -> torch.Tensor:
    """Return the projection with an axis of heads in front of that of time."""
    projected = x @ w if b is None else x @ w + b
    return projected.unflatten(-1, (heads, -1)).transpose(-3, -2)


def attend_by_heads(
    config: Config, t: dict[str, torch.Tensor], mask: torch.Tensor | None
) -> torch.Tensor:
    """Return multi-head attention: projections around attention."""
    q = project(t["q"], t["wq"], t.get("bq"), config["heads"])
    k = project(t["k"], t["wk"], t.get("bk"), config["key_heads"])
    v = project(t["v"], t["wv"], t.get("bv"), config["key_heads"])
    together = attend(q, k, v, mask, None).transpose(-3, -2).flatten(-2)
    result = together @ t["wo"]
    return result + t["bo"] if "bo" in t else result


def own_function(
    config: Config, t: dict[str, torch.Tensor], mask: torch.Tensor | None
) -> torch.Tensor:
    """Return `multi_head_attention_forward`, whose weights are (outputs, inputs), time first."""
    heads, (batch, queries, features) = config["heads"], t["q"].shape
    bias = torch.cat([t["bq"], t["bk"], t["bv"]]) if "bq" in t else None
    if mask is not None:
        hidden = ~mask if mask.dtype == torch.bool else mask  # its True says not to attend
        wanted = (batch, heads, queries, t["k"].shape[1])
        mask = hidden.expand(wanted).reshape(batch * heads, *wanted[2:])
    found, _ = functional.multi_head_attention_forward(
        *(t[name].transpose(0, 1) for name in "qkv"), features, heads, None, bias, None, None,
        False, 0.0, t["wo"].T, t.get("bo"), use_separate_proj_weight=True, attn_mask=mask,
        q_proj_weight=t["wq"].T, k_proj_weight=t["wk"].T, v_proj_weight=t["wv"].T,
        need_weights=False,
    )  # fmt: skip
    return found.transpose(0, 1)


def run(config: Config, operands: dict[str, Array]) -> dict[str, Array]:
    """Return the result, and the gradient to each float operand but masks with infinities."""
    t = {name: torch.tensor(array) for name, array in operands.items()}
    for name, tensor in t.items():
        is_wanted = name != "seed" and (name != "mask" or config["mask"] == "added")
        tensor.requires_grad_(is_wanted)
    mask = whole_mask(t.get("mask"), config["causal"], t["q"].shape[-2], t["k"].shape[-2])
    if config["layer"] == "scaled_dot_product_attention":
        result = attend(t["q"], t["k"], t["v"], mask, config["scale"])
    else:
        result = (own_function if config["is_own"] else attend_by_heads)(config, t, mask)
    (result * t["seed"]).sum().backward()
    found = {"result": result.detach().numpy()}
    return found | {f"d{n}": x.grad.numpy() for n, x in t.items() if x.grad is not None}


def main() -> None:
    """Write all of it."""
    assert torch.__version__.startswith("2.13"), torch.__version__
    written: dict[str, Any] = {}
    configs = []
    for number in range(COUNT):
        config, operands = configure(np.random.default_rng(number), number)
        configs.append(config)
        for name, array in (operands | run(config, operands)).items():
            written[f"{number}/{name}"] = array
    written["configs"] = np.array(json.dumps({"torch": "2.13", "configs": configs}))
    np.savez_compressed(TARGET, **written)


if __name__ == "__main__":
    main()
