"""Write what PyTorch and optax do in a hundred steps to `trajectories.json`, which tests read.

Run it as `python tests/golden_trajectories/generate.py` where both are installed; the tests need
neither. Everything is float64. What is compared, and how closely, is in
`tests/unit/optim/test_golden_trajectories.py`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch

STEPS = 100
KEPT = (1, 2, 3, 10, 30, 100)  # numbers of steps after which the weights are written
BATCHES = 10  # taken in turn
SCHEDULE_STEPS = range(0, 45, 2)

Array = np.ndarray[Any, Any]
Weights = list[Array]
Trajectory = Iterator[Weights]


def problem() -> dict[str, Any]:
    """Return inputs, targets and first weights of the regression `tanh(x @ w + b)`."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(BATCHES, 8, 5)).round(3)
    y = np.tanh(x @ rng.normal(size=(5, 3))).round(3)
    return {"x": x, "y": y, "w": rng.normal(size=(5, 3)).round(3), "b": rng.normal(size=3).round(3)}


PROBLEM = problem()


# ------------------------------------------------------------------------------------- peers


def by_torch(make: Callable[[list[Any]], torch.optim.Optimizer]) -> Trajectory:
    """Yield the weights after each step of an optimizer of PyTorch."""
    weights = [torch.tensor(PROBLEM[name], requires_grad=True) for name in ("w", "b")]
    optimizer = make(weights)
    for i in range(STEPS):
        x, y = (torch.tensor(PROBLEM[name][i % BATCHES]) for name in ("x", "y"))
        optimizer.zero_grad()
        ((torch.tanh(x @ weights[0] + weights[1]) - y) ** 2).mean().backward()
        optimizer.step()
        yield [w.detach().numpy().copy() for w in weights]


def by_optax(rule: optax.GradientTransformation) -> Trajectory:
    """Yield the weights after each step of a rule of optax."""

    def loss(weights: Any, x: Any, y: Any) -> Any:
        return jnp.mean((jnp.tanh(x @ weights[0] + weights[1]) - y) ** 2)

    gradient = jax.jit(jax.grad(loss))
    weights = [jnp.asarray(PROBLEM[name]) for name in ("w", "b")]
    state = rule.init(weights)
    for i in range(STEPS):
        g = gradient(weights, PROBLEM["x"][i % BATCHES], PROBLEM["y"][i % BATCHES])
        moves, state = rule.update(g, state, weights)
        weights = optax.apply_updates(weights, moves)
        yield [np.asarray(w) for w in weights]


def lars_of_the_paper(
    lr: float, weight_decay: float, trust_coefficient: float, momentum: float
) -> optax.GradientTransformation:
    """Return optax's LARS with the ratio of equation 6, whose denominator adds two norms."""

    def update(gs: Any, state: Any, weights: Any) -> Any:
        def scaled(g: Any, w: Any) -> Any:
            norm = jnp.linalg.norm(w)
            below = jnp.linalg.norm(g) + weight_decay * norm
            return trust_coefficient * norm / below * (g + weight_decay * w)

        return jax.tree.map(scaled, gs, weights), state

    return optax.chain(
        optax.GradientTransformation(lambda _: optax.EmptyState(), update),
        optax.scale_by_learning_rate(lr),
        optax.trace(decay=momentum),
    )


# ------------------------------------------------------------------------------------- cases

# Our optimizer, its arguments, and what those are called by the peer, if not the same.
Case = tuple[str, dict[str, Any], str, Trajectory]

_TORCH_NAMES = {"epsilon": "eps", "initial_accumulator": "initial_accumulator_value"}


def torch_case(optimizer: str, peer: str, **arguments: Any) -> Case:
    """Return a case whose peer is in `torch.optim`."""
    given = {_TORCH_NAMES.get(name, name): value for name, value in arguments.items()}
    if "beta1" in given:
        given["betas"] = (given.pop("beta1"), given.pop("beta2"))
    if peer == "RMSprop" and "rho" in given:
        given["alpha"] = given.pop("rho")
    rule = getattr(torch.optim, peer)
    trajectory = by_torch(lambda weights: rule(weights, **given))
    return optimizer, arguments, f"torch.optim.{peer}", trajectory


def optax_case(optimizer: str, peer: str, **arguments: Any) -> Case:
    """Return a case whose peer is in `optax`."""
    names = {"lr": "learning_rate", "beta1": "b1", "beta2": "b2", "epsilon": "eps"}
    given = {names.get(name, name): value for name, value in arguments.items()}
    return optimizer, arguments, f"optax.{peer}", by_optax(getattr(optax, peer)(**given))


def cases() -> Iterator[Case]:
    """Yield every case, with trajectories that are still to be run."""
    moments = {"beta1": 0.8, "beta2": 0.95}
    yield torch_case("SGD", "SGD", lr=0.1)
    yield torch_case("SGD", "SGD", lr=0.1, weight_decay=0.05)
    yield torch_case("SGD", "SGD", lr=0.05, momentum=0.9)
    yield torch_case("SGD", "SGD", lr=0.05, momentum=0.9, nesterov=True)
    yield torch_case("SGD", "SGD", lr=0.05, momentum=0.8, nesterov=True, weight_decay=0.1)
    yield torch_case("Adam", "Adam", lr=0.01, epsilon=1e-7)
    yield torch_case("Adam", "Adam", lr=0.02, **moments, epsilon=1e-3)
    yield torch_case("Adam", "Adam", lr=0.01, epsilon=1e-7, weight_decay=0.1)
    yield torch_case("AdamW", "AdamW", lr=0.01)
    yield torch_case("AdamW", "AdamW", lr=0.02, **moments, epsilon=1e-6, weight_decay=0.2)
    yield torch_case("AdamW", "AdamW", lr=0.01, epsilon=1e-3, weight_decay=0)
    yield torch_case("RMSProp", "RMSprop")
    yield torch_case("RMSProp", "RMSprop", lr=0.005, rho=0.9, epsilon=1e-4, weight_decay=0.1)
    yield torch_case("RMSProp", "RMSprop", lr=0.005, momentum=0.8)
    yield torch_case("RMSProp", "RMSprop", lr=0.005, rho=0.9, centered=True, epsilon=1e-4)
    yield torch_case("RMSProp", "RMSprop", lr=0.002, momentum=0.8, centered=True, epsilon=1e-4)
    yield torch_case("Adagrad", "Adagrad", lr=0.1)
    yield torch_case("Adagrad", "Adagrad", lr=0.2, initial_accumulator=0.1, weight_decay=0.05)
    yield torch_case("Adadelta", "Adadelta")
    yield torch_case("Adadelta", "Adadelta", lr=0.5, rho=0.95, epsilon=1e-4, weight_decay=0.1)
    yield optax_case("Lion", "lion", lr=0.01, weight_decay=0.0)
    yield optax_case("Lion", "lion", lr=0.01, beta1=0.8, beta2=0.95, weight_decay=0.3)
    yield optax_case("LARS", "lars", lr=5.0)
    yield optax_case("LARS", "lars", lr=2.0, momentum=0.5, trust_coefficient=0.01)
    with_decay = {"lr": 10.0, "weight_decay": 0.05, "trust_coefficient": 0.002, "momentum": 0.8}
    peer = "optax, with the ratio of the paper's equation 6"
    yield "LARS", with_decay, peer, by_optax(lars_of_the_paper(**with_decay))
    yield optax_case("LAMB", "lamb", lr=0.01)
    yield optax_case("LAMB", "lamb", lr=0.02, **moments, epsilon=1e-3, weight_decay=0.1)


def defaults() -> dict[str, dict[str, Any]]:
    """Return the defaults of PyTorch, by our optimizers and the names of our arguments."""
    ours = {theirs: our for our, theirs in _TORCH_NAMES.items()}
    found: dict[str, dict[str, Any]] = {}
    for name, peer in (
        ("SGD", "SGD"), ("AdamW", "AdamW"), ("RMSProp", "RMSprop"), ("Adagrad", "Adagrad"),
        ("Adadelta", "Adadelta"),
    ):  # fmt: skip
        parameters = inspect.signature(getattr(torch.optim, peer)).parameters.values()
        given = {ours.get(p.name, p.name): p.default for p in parameters}
        given["beta1"], given["beta2"] = given.pop("betas", (None, None))
        given["rho"] = given.pop("alpha", given.get("rho"))
        shared = ("lr", "momentum", "nesterov", "beta1", "beta2", "rho", "epsilon", "centered",
                  "initial_accumulator", "weight_decay")  # fmt: skip
        found[name] = {key: given[key] for key in shared if given.get(key) is not None}
    return found


def schedules() -> Iterator[tuple[str, dict[str, Any], str, Callable[[int], Any]]]:
    """Yield our schedules, their arguments, and the functions of the peers."""
    yield (
        "exponential", {"rate": 0.1, "steps": 7, "factor": 0.6},
        "optax.exponential_decay", optax.exponential_decay(0.1, 7, 0.6),
    )  # fmt: skip
    yield (
        "exponential", {"rate": 0.1, "steps": 7, "factor": 0.6, "staircase": True},
        "optax.exponential_decay", optax.exponential_decay(0.1, 7, 0.6, staircase=True),
    )  # fmt: skip
    yield (
        "linear", {"start": 0.5, "end": 0.1, "steps": 30},
        "optax.linear_schedule", optax.linear_schedule(0.5, 0.1, 30),
    )  # fmt: skip
    yield (
        "polynomial", {"start": 0.5, "end": 0.1, "steps": 30, "power": 2.5},
        "optax.polynomial_schedule", optax.polynomial_schedule(0.5, 0.1, 2.5, 30),
    )  # fmt: skip
    yield (
        "cosine", {"rate": 0.3, "steps": 30, "end": 0.06},
        "optax.cosine_decay_schedule", optax.cosine_decay_schedule(0.3, 30, alpha=0.2),
    )  # fmt: skip
    for growth in (1, 2):
        yield (
            "cosine_restarts", {"rate": 0.3, "steps": 6, "end": 0.01, "growth": growth},
            "torch.optim.lr_scheduler.CosineAnnealingWarmRestarts", torch_restarts(growth),
        )  # fmt: skip


def torch_restarts(growth: int) -> Callable[[int], float]:
    """Return PyTorch's rates with restarts, by the number of the step."""
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 6, growth, 0.01)
    rates = []
    for _ in range(SCHEDULE_STEPS.stop):
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    return rates.__getitem__


# ------------------------------------------------------------------------------------- file


def kept(trajectory: Trajectory) -> list[list[float]]:
    """Return the weights after the steps of `KEPT`, each flat: those of w, then those of b."""
    return [
        [float(v) for w in weights for v in w.ravel()]
        for i, weights in enumerate(trajectory, start=1)
        if i in KEPT
    ]


def main() -> None:
    """Run all peers and write the file."""
    jax.config.update("jax_enable_x64", True)
    document = {
        "versions": {m.__name__: str(m.__version__) for m in (torch, optax, jax, np)},
        "problem": {name: array.tolist() for name, array in PROBLEM.items()},
        "kept": KEPT,
        "defaults": defaults(),
        "optimizers": [
            {"optimizer": name, "arguments": arguments, "peer": peer, "weights": kept(run)}
            for name, arguments, peer, run in cases()
        ],
        "schedule_steps": list(SCHEDULE_STEPS),
        "schedules": [
            {"schedule": name, "arguments": arguments, "peer": peer,
             "rates": [float(rate(i)) for i in SCHEDULE_STEPS]}
            for name, arguments, peer, rate in schedules()
        ],
    }  # fmt: skip
    path = Path(__file__).with_name("trajectories.json")
    path.write_text(json.dumps(document, indent=None).replace('{"', '\n{"') + "\n")


if __name__ == "__main__":
    main()
