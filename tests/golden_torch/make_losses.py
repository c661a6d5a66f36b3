"""Write what PyTorch's losses are, values and gradients, to `tests/data/torch_losses.npz`.

Made with PyTorch 2.13.0 and NumPy, in an environment that has them; symgrad is not needed:

    python -m tests.golden_torch.make_losses

Each configuration is a loss of `sg.nn`, its arguments, and arrays drawn from its number. Floats are
rounded to float32, so that one result, which is computed in float64, is that of both dtypes.
Gradients are those of the sum of the result times cos(0), cos(1), ... in row-major order. Focal and
hinge losses are not PyTorch's; they are written with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

from tests.golden_torch.configurations import Configuration, Draw

PATH = Path(__file__).parents[1] / "data" / "torch_losses.npz"
VERSION = "2.13.0"
Array = np.ndarray[Any, Any]


def _of_classes(draw: Draw, loss: str, peer: Callable[..., Any]) -> Configuration:
    """Make cross-entropy or nll of integer labels, with all that may be beside them."""
    batch, classes, axis = draw.one_of(3, 5, 7), draw.one_of(2, 4, 6), draw.one_of(1, -1)
    more = draw.one_of((), (), (3,), (2, 2))
    shape = (batch, classes, *more) if axis == 1 else (batch, *more, classes)
    labels = draw.whole(batch, *more, high=classes)
    arguments: dict[str, Any] = {"axis": axis, "reduction": draw.reduction()}
    keywords = {}
    if draw.one_of(True, False):
        arguments["ignore_index"] = draw.one_of(0, -100)
        labels[..., 0] = np.where(draw.whole(*labels.shape[:-1], high=2), -100, labels[..., 0])
        if arguments["ignore_index"] == 0:
            labels = np.maximum(labels, 0)
        labels.flat[-1] = 1
    if draw.one_of(True, False):
        keywords["weights"] = draw.real(classes, low=0.1, high=2.0)
    if loss == "cross_entropy":
        arguments["label_smoothing"] = draw.one_of(0.0, 0.1, 0.5)

    def of_torch(x: Any, labels: Any, weights: Any = None) -> Any:
        theirs = {"ignore_index": -1, "weight": weights, **arguments}
        return peer(torch.movedim(x, theirs.pop("axis"), 1), labels, **theirs)

    # PyTorch has no gradient to the weights.
    given = [draw.real(*shape), labels]
    return Configuration(loss, of_torch, given, keywords, arguments, ("weights",))


def cross_entropy_of_classes(draw: Draw) -> Configuration:
    return _of_classes(draw, "cross_entropy", F.cross_entropy)


def nll(draw: Draw) -> Configuration:
    return _of_classes(draw, "nll", F.nll_loss)


def cross_entropy_of_probabilities(draw: Draw) -> Configuration:
    batch, classes = draw.one_of(3, 5), draw.one_of(2, 4)
    p = draw.real(batch, classes, low=0.0, high=1.0)
    arguments = {"label_smoothing": draw.one_of(0.0, 0.25), "reduction": draw.reduction()}
    keywords = {"weights": draw.real(classes, low=0.1)} if draw.one_of(True, False) else {}

    def peer(x: Any, y: Any, weights: Any = None) -> Any:
        return F.cross_entropy(x, y, weight=weights, **arguments)

    given = [draw.real(batch, classes), p]
    return Configuration("cross_entropy", peer, given, keywords, arguments, ("weights",))


def cross_entropy_of_large_logits(draw: Draw) -> Configuration:
    x = draw.real(6, 4, low=-1e4, high=1e4)
    labels = draw.whole(6, high=4)
    x[0, (labels[0] + 1) % 4] = -np.inf
    return _pointwise("cross_entropy", F.cross_entropy, draw, x, labels)


def _pointwise(
    loss: str,
    peer: Callable[..., Any],
    draw: Draw,
    *given: Array,
    names: dict[str, str] | None = None,
    **arguments: Any,
) -> Configuration:
    """Make a loss whose arguments PyTorch has too, by their name here or by the one in `names`."""
    arguments = {**arguments, "reduction": draw.reduction()}
    theirs = {(names or {}).get(key, key): value for key, value in arguments.items()}

    def of_torch(*xs: Any) -> Any:
        return peer(*xs, **theirs)

    return Configuration(loss, of_torch, list(given), arguments=arguments)


def binary_cross_entropy(draw: Draw) -> Configuration:
    p, y = (draw.real(4, 3, low=0.01, high=0.99) for _ in range(2))
    made = _pointwise("binary_cross_entropy", F.binary_cross_entropy, draw, p, y)
    if draw.one_of(True, False):
        made.keywords["weights"] = draw.real(3, low=0.1)
        reduction = made.arguments["reduction"]
        made.without_gradient = ("weights",)
        made.peer = lambda p, y, weights: F.binary_cross_entropy(
            p, y, weight=weights.expand(4, 3), reduction=reduction
        )
    return made


def binary_cross_entropy_with_logits(draw: Draw) -> Configuration:
    scale = draw.one_of(3.0, 1e4)
    x, y = draw.real(4, 3, low=-scale, high=scale), draw.real(4, 3, low=0.0, high=1.0)
    peer = F.binary_cross_entropy_with_logits
    made = _pointwise("binary_cross_entropy_with_logits", peer, draw, x, y)
    if draw.one_of(True, False):
        made.keywords["positive_weights"] = draw.real(3, low=0.1)
        reduction = made.arguments["reduction"]
        made.without_gradient = ("positive_weights",)
        made.peer = lambda x, y, positive_weights: peer(
            x, y, pos_weight=positive_weights, reduction=reduction
        )
    return made


def mse(draw: Draw) -> Configuration:
    return _pointwise("mse", F.mse_loss, draw, draw.real(4, 3), draw.real(4, 3))


def l1(draw: Draw) -> Configuration:
    return _pointwise("l1", F.l1_loss, draw, draw.real(4, 3), draw.real(4, 3))


def smooth_l1(draw: Draw) -> Configuration:
    x, t = draw.real(4, 3), draw.real(4, 3)
    t[0] = x[0]
    return _pointwise("smooth_l1", F.smooth_l1_loss, draw, x, t, beta=draw.one_of(0.0, 0.5, 2.0))


def huber(draw: Draw) -> Configuration:
    given, delta = [draw.real(4, 3), draw.real(4, 3)], draw.one_of(0.5, 2.0)
    return _pointwise("huber", F.huber_loss, draw, *given, delta=delta)


def kl_div(draw: Draw) -> Configuration:
    log_target = draw.one_of(True, False)
    p = draw.real(4, 3, low=-2.0, high=0.0) if log_target else draw.real(4, 3, low=0.05, high=1.0)
    given = draw.real(4, 3, low=-4.0, high=0.0)
    return _pointwise("kl_div", F.kl_div, draw, given, p, log_target=log_target)


def poisson_nll(draw: Draw) -> Configuration:
    log_input = draw.one_of(True, False)
    x = draw.real(4, 3) if log_input else draw.real(4, 3, low=0.1)
    t = draw.real(4, 3, low=0.0, high=6.0)
    arguments = {"log_input": log_input, "full": draw.one_of(True, False)}
    return _pointwise("poisson_nll", F.poisson_nll_loss, draw, x, t, **arguments)


def gaussian_nll(draw: Draw) -> Configuration:
    var = draw.real(4, 3, low=0.05, high=2.0)
    var[0, 0] = 0.0
    arguments = {"full": draw.one_of(True, False), "epsilon": 1e-3}
    names = {"epsilon": "eps"}
    x, t = draw.real(4, 3), draw.real(4, 3)
    return _pointwise(
        "gaussian_nll", F.gaussian_nll_loss, draw, x, t, var, names=names, **arguments
    )


def hinge(draw: Draw) -> Configuration:
    def peer(x: Any, t: Any, reduction: str) -> Any:
        losses = torch.clamp_min(1 - t * x, 0)
        return losses if reduction == "none" else getattr(losses, reduction)()

    return _pointwise("hinge", peer, draw, draw.real(4, 3), draw.signs(4, 3))


def focal(draw: Draw) -> Configuration:
    def peer(x: Any, y: Any, alpha: float, gamma: float, reduction: str) -> Any:
        p = torch.sigmoid(x)
        losses = F.binary_cross_entropy_with_logits(x, y, reduction="none")
        losses = losses * (p * (1 - y) + (1 - p) * y) ** gamma
        losses = losses * (alpha * y + (1 - alpha) * (1 - y))
        return losses if reduction == "none" else getattr(losses, reduction)()

    arguments = {"alpha": draw.one_of(0.25, 0.6), "gamma": draw.one_of(0.5, 2.0)}
    y = draw.whole(4, 3, high=2).astype(np.float64)
    return _pointwise("focal", peer, draw, draw.real(4, 3), y, **arguments)


def hinge_embedding(draw: Draw) -> Configuration:
    given = [draw.real(4, 3), draw.signs(4, 3)]
    made = _pointwise("hinge_embedding", F.hinge_embedding_loss, draw, *given, margin=1.5)
    made.without_gradient = ("1",)
    return made


def soft_margin(draw: Draw) -> Configuration:
    given = [draw.real(4, 3), draw.signs(4, 3)]
    made = _pointwise("soft_margin", F.soft_margin_loss, draw, *given)
    made.without_gradient = ("1",)
    return made


def margin_ranking(draw: Draw) -> Configuration:
    x, y, t = draw.real(6), draw.real(6), draw.signs(6)
    y[0] = x[0]
    margin = draw.one_of(0.0, 0.5)
    return _pointwise("margin_ranking", F.margin_ranking_loss, draw, x, y, t, margin=margin)


def multi_margin(draw: Draw) -> Configuration:
    x, labels = draw.real(5, 4), draw.whole(5, high=4)
    arguments = {"p": draw.one_of(1, 2), "margin": draw.one_of(0.5, 1.0)}
    made = _pointwise("multi_margin", F.multi_margin_loss, draw, x, labels, **arguments)
    if draw.one_of(True, False):
        made.keywords["weights"] = draw.real(4, low=0.1)
        theirs = dict(made.arguments)
        made.without_gradient = ("weights",)
        made.peer = lambda x, y, weights: F.multi_margin_loss(x, y, weight=weights, **theirs)
    return made


def multilabel_soft_margin(draw: Draw) -> Configuration:
    x, t = draw.real(5, 4), draw.whole(5, 4, high=2).astype(np.float64)
    made = _pointwise("multilabel_soft_margin", F.multilabel_soft_margin_loss, draw, x, t)
    if draw.one_of(True, False):
        made.keywords["weights"] = draw.real(4, low=0.1)
        reduction = made.arguments["reduction"]
        made.without_gradient = ("weights",)
        made.peer = lambda x, t, weights: F.multilabel_soft_margin_loss(
            x, t, weight=weights, reduction=reduction
        )
    return made


def cosine_similarity(draw: Draw) -> Configuration:
    axis = draw.one_of(-1, 1, 0)
    x, y = draw.real(4, 3, 2), draw.real(4, 3, 2)
    x[0] = 0.0  # a vector of zeros, but for axis 0

    def peer(x: Any, y: Any) -> Any:
        return F.cosine_similarity(x, y, dim=axis)

    return Configuration("cosine_similarity", peer, [x, y], arguments={"axis": axis})


def cosine_embedding(draw: Draw) -> Configuration:
    x, y, t = draw.real(6, 3), draw.real(6, 3), draw.signs(6)
    margin = draw.one_of(0.0, 0.3)
    made = _pointwise("cosine_embedding", F.cosine_embedding_loss, draw, x, y, t, margin=margin)
    made.without_gradient = ("2",)
    return made


def triplet(draw: Draw) -> Configuration:
    given = [draw.real(6, 3) for _ in range(3)]
    given[1][0] = given[0][0]
    arguments = {"margin": draw.one_of(1.0, 2.5), "swap": draw.one_of(True, False)}
    return _pointwise("triplet", F.triplet_margin_loss, draw, *given, **arguments)


def multilabel_margin(draw: Draw) -> Configuration:
    x, targets = draw.real(5, 4), draw.whole(5, 4, low=-1, high=4)
    targets[:3] = [[3, 1, -1, 0], [-1, 2, 2, 2], [2, 2, -1, -1]]
    return _pointwise("multilabel_margin", F.multilabel_margin_loss, draw, x, targets)


def pairwise_distance(draw: Draw) -> Configuration:
    x, y = draw.real(3, 2, 4), draw.real(2, 4)
    x[0] = y
    x[1, :, :2] = y[:, :2]
    p = draw.one_of(0.5, 1.0, 1.5, 2.0, 2.0, 3.0, float("inf"))
    arguments = {"p": p, "epsilon": draw.one_of(0.0, 0.1), "keepdims": draw.one_of(True, False)}

    def peer(x: Any, y: Any) -> Any:
        return F.pairwise_distance(x, y, *arguments.values())

    return Configuration("pairwise_distance", peer, [x, y], arguments=arguments)


def ctc(draw: Draw) -> Configuration:
    """Of log_softmax of what is given, as PyTorch's gradient to log_probs supposes it to be."""
    time, batch, classes, length = draw.one_of(6, 9), draw.one_of(2, 4), 4, draw.one_of(1, 3)
    blank = draw.one_of(0, 3)
    labels = (blank + 1 + draw.whole(batch, length, high=classes - 1)) % classes
    lengths = draw.whole(batch, high=length + 1)
    steps = draw.whole(batch, low=1, high=time + 1)
    steps[0], lengths[-1] = time, length
    needed = lengths + (labels[:, 1:] == labels[:, :-1]).sum(1)
    # One is too long for its time; its gradient is defined with zero_infinity alone.
    zero_infinity = draw.one_of(True, False)
    steps = np.minimum(np.maximum(steps, needed), time)
    if zero_infinity:
        steps[-1] = max(1, lengths[-1] - 1)
    arguments = {"blank": blank, "zero_infinity": zero_infinity, "reduction": draw.reduction()}

    def peer(x: Any, labels: Any, steps: Any, lengths: Any) -> Any:
        return F.ctc_loss(F.log_softmax(x, -1), labels, steps, lengths, **arguments)

    given = [draw.real(time, batch, classes), labels, steps, lengths]
    return Configuration("ctc", peer, given, arguments=arguments)


# How many configurations of each.
COUNTS: dict[Callable[[Draw], Configuration], int] = {
    cross_entropy_of_classes: 12,
    cross_entropy_of_probabilities: 4,
    cross_entropy_of_large_logits: 1,
    nll: 4,
    binary_cross_entropy: 3,
    binary_cross_entropy_with_logits: 4,
    mse: 1,
    l1: 1,
    smooth_l1: 3,
    huber: 2,
    kl_div: 3,
    poisson_nll: 4,
    gaussian_nll: 3,
    hinge: 1,
    focal: 3,
    hinge_embedding: 1,
    soft_margin: 1,
    margin_ranking: 2,
    multi_margin: 3,
    multilabel_soft_margin: 2,
    cosine_similarity: 3,
    cosine_embedding: 3,
    triplet: 4,
    ctc: 7,
    multilabel_margin: 3,
    pairwise_distance: 8,
}


def measure(made: Configuration) -> dict[str, Array]:
    """Return what goes in and comes out: given arrays, the result, and gradients to floats."""
    arrays = {str(place): array for place, array in enumerate(made.places)} | made.keywords
    tensors = {name: torch.tensor(array) for name, array in arrays.items()}
    wanted = [
        name
        for name, tensor in tensors.items()
        if tensor.is_floating_point() and name not in made.without_gradient
    ]
    for name in wanted:
        tensors[name].requires_grad_()
    by_place = [tensors[str(place)] for place in range(len(made.places))]
    result = made.peer(*by_place, **{name: tensors[name] for name in made.keywords})
    share = torch.cos(torch.arange(result.numel(), dtype=torch.float64)).reshape(result.shape)
    grads = torch.autograd.grad((result * share).sum(), [tensors[name] for name in wanted])
    out = {f"given.{name}": array for name, array in arrays.items()}
    out["result"] = result.detach().numpy()
    return out | {f"grad.{n}": g.numpy() for n, g in zip(wanted, grads, strict=True)}


def main() -> None:
    """Write the file anew."""
    assert torch.__version__.split("+")[0] == VERSION, torch.__version__
    arrays: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    for maker, count in COUNTS.items():
        for seed in range(count):
            made, name = maker(Draw(1000 * len(rows) + seed)), f"{maker.__name__}-{seed}"
            rows.append({"name": name, "loss": made.loss, "arguments": made.arguments})
            arrays |= {f"{name}.{key}": array for key, array in measure(made).items()}
    arrays["rows"] = np.array(json.dumps({"torch": VERSION, "configurations": rows}))
    PATH.parent.mkdir(exist_ok=True)
    np.savez_compressed(PATH, **arrays)
    print(f"{len(rows)} configurations, {PATH.stat().st_size} bytes")  # noqa: T201


if __name__ == "__main__":
    main()
