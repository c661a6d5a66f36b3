"""Did-you-mean hints: names and keywords that do not exist, arguments that do not fit.

What other libraries call a thing is declared where the thing is, by `known_as`; what they call an
argument is in one table here, since hundreds of functions have an `axis`. Which names are public is
not decided here but in the modules that list them; they say so by `register_names`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

from symgrad.errors import ArgumentError, UnknownNameError, user_source
from symgrad.late_modules import load_awaited

Known = TypeVar("Known", bound=Callable[..., Any])

# What PyTorch, TensorFlow and JAX call an argument: what it is called here, which may be several.
KEYWORDS: Mapping[str, tuple[str, ...]] = {
    "a_max": ("max",),
    "a_min": ("min",),
    "alpha": ("slope",),
    "b1": ("beta1",),
    "b2": ("beta2",),
    "beta_1": ("beta1",),
    "beta_2": ("beta2",),
    "betas": ("beta1", "beta2"),
    "compute_dtype": ("dtype",),
    "data_format": ("layout",),
    "descending_order": ("descending",),
    "dim": ("axis",),
    "dim0": ("axis1",),
    "dim1": ("axis2",),
    "dimension": ("axis",),
    "dims": ("axes",),
    "eps": ("epsilon",),
    "from_logits": ("logits",),
    "givens": ("inputs",),
    "is_causal": ("causal",),
    "is_training": ("training",),
    "keep_dims": ("keepdims",),
    "keepdim": ("keepdims",),
    "kernel_size": ("window",),
    "learning_rate": ("lr",),
    "attn_mask": ("mask",),
    "dropout_p": ("dropout",),
    "maxval": ("high",),
    "minval": ("low",),
    "n_groups": ("groups",),
    "negative_slope": ("slope",),
    "normalized_shape": ("axis",),
    "num_groups": ("groups",),
    "num_heads": ("heads",),
    "offs": ("offsets",),
    "p": ("rate",),
    "pad": ("padding",),
    "pool_size": ("window",),
    "rng": ("generator",),
    "scale_factor": ("factor",),
    "stride": ("strides",),
    "upscale_factor": ("factor",),
    "weight": ("weights",),
}

# An argument that is left out, or a class that is called: where one gets what is wanted.
MADE_BY: Mapping[str, str] = {
    "generator": "sg.random.Generator(seed) makes one, and so does sg.random.key(seed)",
    "seed": "any int will do; the same one gives the same numbers",
    "Communicator": "sg.distributed.world() gives one",
    "DType": "dtypes are sg.float32 and the like, and their names are taken for them",
    "Library": "sg.load(path) gives one",
    "SparseTensor": 'sg.jacobian and sg.hessians give one with sparsity="auto"',
    "Step": "sg.compile(inputs, outputs, updates) gives one",
    "Variable": "sg.variable(value) makes one",
}

_PATHS: dict[str, list[str]] = {}  # a public name: where it is, as users write it
_NAMES: dict[str, Collection[str]] = {}  # a module, as users write it: its public names
_KNOWN_AS: dict[str, str] = {}  # what another library calls it: its name here


def known_as(*names: str) -> Callable[[Known], Known]:
    """Declare what other libraries call a public function or class; a decorator."""

    def declare(known: Known) -> Known:
        for name in names:
            ours = _KNOWN_AS.setdefault(_plain(name), known.__name__)
            assert ours == known.__name__, f"{name} is {ours} and {known.__name__}"
        return known

    return declare


def register_names(module: str, names: Collection[str]) -> None:
    """Make the public names of a module known, whose path users write as `module`."""
    _NAMES[module] = names
    for name in names:
        _PATHS.setdefault(name, []).append(f"{module}.{name}")


def is_public_name(name: str) -> bool:
    """Return whether a public module has this name."""
    return name in _PATHS


def unknown_name(module: str, name: str) -> UnknownNameError:
    """Return the error for a name that a public module does not have."""
    return UnknownNameError(
        module, f"there is no {name!r}", hint=_hint(_similar(module, name)), source=user_source()
    )


def unknown_attribute(
    owner: str, name: str, attributes: Iterable[str], known: Mapping[str, str]
) -> UnknownNameError:
    """Return the error for an attribute that `owner` does not have.

    `known` maps what other libraries call one to what stands for it.
    """
    plain = {_plain(attribute): attribute for attribute in attributes if attribute[:1] != "_"}
    close = (
        [known[name]] if name in known else [f".{plain[n]}" for n in _close(_plain(name), plain)]
    )
    hint = _hint(close or _similar("sg", name))
    return UnknownNameError(
        owner, f"there is no attribute {name!r}", hint=hint, source=user_source()
    )


def unknown_keyword(subject: str, keyword: str, parameters: Collection[str]) -> ArgumentError:
    """Return the error for a keyword that `subject`, which takes `parameters`, does not take."""
    meant = [name for name in KEYWORDS.get(keyword, ()) if name in parameters]
    found = meant or get_close_matches(keyword, parameters, 1, 0.7)
    takes = ", ".join(parameters) or "none"
    hint = _hint([f"{name}=" for name in found], " and ")
    return ArgumentError(
        subject,
        f"no argument is called {keyword!r}; there are {takes}",
        hint=hint,
        source=user_source(),
    )


def refuse_arguments(
    subject: str, function: Callable[..., Any], args: Sequence[Any], given: Mapping[str, Any]
) -> None:
    """Raise `ArgumentError` if `function` cannot be called with these arguments.

    It is for handling a `TypeError` of such a call: where this returns, the arguments fit, and the
    error came out of the function.
    """
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **given)
    except TypeError:
        raise _misfit(subject, signature, args, given) from None


def _misfit(
    subject: str, signature: inspect.Signature, args: Sequence[Any], given: Mapping[str, Any]
) -> ArgumentError:
    """Return the error for arguments that do not fit a signature: the first thing that is wrong."""
    taken = list(signature.parameters.values())
    is_method = bool(taken) and taken[0].name == "self"
    taken, args = (taken[1:], args[1:]) if is_method else (taken, args)
    named = [p.name for p in taken if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    ordered = [p for p in taken if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    takes = ", ".join(_as_written(p) for p in taken) or "none"
    unplaced = [p.name for p in taken if p.kind is p.POSITIONAL_ONLY and p.name in given]
    if unplaced:
        problem = f"{unplaced[0]!r} is given by its name and can be by position only"
        return ArgumentError(subject, f"{problem}; there are {takes}", source=user_source())
    unknown = [keyword for keyword in given if keyword not in named]
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in taken):
        return unknown_keyword(subject, unknown[0], named)
    twice = [p.name for p in ordered[: len(args)] if p.name in given]
    if len(args) > len(ordered):
        count = f"{len(args)} arguments are given by position, which {len(ordered)} can be"
        return ArgumentError(subject, f"{count}; there are {takes}", source=user_source())
    if twice:
        problem = f"{twice[0]!r} is given by position and by its name; there are {takes}"
        return ArgumentError(subject, problem, source=user_source())
    missing = [
        p.name
        for p in (*ordered[len(args) :], *(p for p in taken if p.kind is p.KEYWORD_ONLY))
        if p.default is p.empty and p.name not in given
    ]
    names = " and ".join(filter(None, (", ".join(map(repr, missing[:-1])), repr(missing[-1]))))
    hint = MADE_BY.get(subject) or next((MADE_BY[n] for n in missing if n in MADE_BY), None)
    return ArgumentError(
        subject,
        f"no value is given for {names}; there are {takes}",
        hint=hint,
        source=user_source(),
    )


def _as_written(parameter: inspect.Parameter) -> str:
    """Return the name of a parameter, with the stars of one that stands for several."""
    if parameter.kind is parameter.VAR_KEYWORD:
        return f"**{parameter.name}"
    return f"*{parameter.name}" if parameter.kind is parameter.VAR_POSITIONAL else parameter.name


def _similar(module: str, name: str) -> list[str]:
    """Return the one public name that `name` probably means, in `module` or another one."""
    load_awaited()
    plain_name = _plain(name)
    # Many libraries have a name for each number of axes of space.
    known = _KNOWN_AS.get(plain_name) or _KNOWN_AS.get(re.sub("[123]d$", "", plain_name))
    if known is not None:
        return [_path(module, known)]
    for place in (module, *(other for other in _NAMES if other != module)):
        plain = {_plain(n): n for n in _NAMES.get(place, ())}
        found = _close(_plain(name), plain) if place == module else [_plain(name)] * (
            _plain(name) in plain
        )  # fmt: skip
        if found:
            return [f"{place}.{plain[found[0]]}"]
    return []


def _path(module: str, known: str) -> str:
    paths = _PATHS.get(known, [known])
    inside = f"{module}.{known}"
    return inside if inside in paths else paths[0]


def _close(name: str, names: Iterable[str]) -> list[str]:
    return get_close_matches(name, list(names), 1, 0.8)


def _plain(name: str) -> str:
    """Return a name without what spellings differ in: `CrossEntropy` is `cross_entropy`."""
    return name.replace("_", "").lower()


def _hint(found: list[str], between: str = " or ") -> str | None:
    return f"did you mean {between.join(found)}?" if found else None
