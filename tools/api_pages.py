"""The reference pages: what each public name is, from its signature, its docstring and its op.

`pages()` gives them by their path in the site, in Markdown. Beside what a docstring says stand
facts that are asked of the package itself: which dtypes an op takes and gives, of which operands
it has a gradient, what stands for it on tensors and in NumPy, and where its source is.
"""

from __future__ import annotations

import enum
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ForwardRef

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # a script is given the folder it lies in

from tools.op_facts import facts_of  # noqa: E402 - once the folder above is on the path
from tools.public_names import PublicName, faces, members_of, names_of  # noqa: E402

_OPS = "symgrad.graph.ops"
MAX_SIGNATURE = 88


@dataclass(frozen=True)
class Page:
    """A page of the reference: names of `face` whose modules begin with one of `modules`."""

    path: str
    title: str
    face: str
    modules: tuple[str, ...]


def _ops(*names: str) -> tuple[str, ...]:
    return tuple(f"{_OPS}.{name}" for name in names)


# A name is on the first page that takes it; one of another module of `sg` is on the last.
PAGES = (
    Page(
        "programs",
        "Graphs and programs",
        "sg",
        ("symgrad.runtime", "symgrad.frontend.state", "symgrad.graph.graph", "symgrad.graph.leaf",
         "symgrad.graph.node", "symgrad.graph.build", "symgrad.graph.operands",
         "symgrad.foreign"),
    ),
    Page(
        "gradients",
        "Gradients",
        "sg",
        ("symgrad.passes.gradients", "symgrad.graph.gradient_registry",
         "symgrad.frontend.recompute", "symgrad.frontend.sparse",
         "symgrad.arrays.storing", *_ops("marks")),
    ),
    Page("arrays", "Functions of arrays", "sg", ("symgrad.arrays", "symgrad.functional")),
    Page(
        "control",
        "Control flow",
        "sg",
        ("symgrad.frontend.control", "symgrad.frontend.iteration",
         "symgrad.frontend.associative_scan", "symgrad.frontend.tensor_array"),
    ),
    Page(
        "creation", "Creation", "sg", ("symgrad.frontend.creation", "symgrad.frontend.matrices")
    ),
    Page(
        "elementwise",
        "Elementwise ops",
        "sg",
        _ops("arithmetic", "whole_numbers", "transcendental", "powers", "trigonometry",
             "hyperbolic", "float_parts", "comparison", "closeness", "bits", "complex",
             "conversion"),
    ),
    Page(
        "reductions",
        "Reductions, scans and statistics",
        "sg",
        _ops("reduction", "statistics", "order_statistics", "nan_positions", "covariance",
             "counting", "differences", "cumulative", "running", "exponential_scans"),
    ),
    Page(
        "shapes",
        "Shapes",
        "sg",
        (*_ops("structure", "views", "slicing", "joining", "padding", "diagonals"),
         "symgrad.frontend.shapes"),
    ),
    Page(
        "indexing",
        "Indexing, sorting and sets",
        "sg",
        _ops("indexing", "segments", "windows", "ordering", "sets", "membership"),
    ),
    Page(
        "products",
        "Products",
        "sg",
        _ops("contraction", "summation", "vector_products", "interpolation"),
    ),
    Page(
        "dtypes",
        "Dtypes and constants",
        "sg",
        ("symgrad.graph.dtypes", "symgrad.frontend.data_types", "symgrad.frontend.inspection",
         "builtins"),
    ),
    Page("containers", "Containers", "sg", ("symgrad.frontend.container",)),
    Page("errors", "Errors", "sg", ("symgrad.errors",)),
    Page("more", "More names", "sg", ("",)),
    Page(
        "activations",
        "Activations",
        "sg.nn",
        tuple(f"symgrad.nn.{n}" for n in ("activations", "piecewise", "smooth", "gating")),
    ),
    Page(
        "losses",
        "Losses and metrics",
        "sg.nn",
        tuple(f"symgrad.nn.{n}" for n in ("losses", "class_losses", "row_losses", "ctc_loss",
                                          "metrics")),
    ),
    Page("layers", "Layers", "sg.nn", ("",)),
)  # fmt: skip


def pages() -> dict[str, str]:
    """Return the reference, page by page: its path below `reference/`, and its Markdown."""
    entries = _entries()
    made = {}
    for page in _all_pages():
        names = [n for n in entries if _page_of(n) == page]
        if names:
            made[f"{page.path}.md"] = _text_of(page, names)
    made["index.md"] = _index(entries)
    return made


def targets() -> dict[str, str]:
    """Return for each public name where it is: the page below `reference/` and the label."""
    found = {}
    for entry in _entries():
        path = _page_of(entry).path
        found[entry.name] = f"{path}.md#{label_of(entry.name)}"
        if inspect.isclass(entry.value):
            for member in members_of(entry):
                owner = _described_at(entry, member)
                place = _page_of(owner).path
                label = label_of(f"{owner.name}.{_short(member)}")
                found[member.name] = f"{place}.md#{label}"
    for alias, primary in _aliases().items():
        found.setdefault(alias, found[primary])
    return found


def label_of(name: str) -> str:
    """Return the label of a name; `sg.Variable` and `sg.variable` must differ in small letters."""
    return re.sub(r"[A-Z]", lambda found: f"-{found[0].lower()}", name.replace(".", "-"))


@cache
def _all_pages() -> list[Page]:
    listed = {page.face for page in PAGES}
    others = [face for face in faces() if face not in listed]
    single = [
        Page(face.removeprefix("sg.").replace(".", "_"), face, face, ("",)) for face in others
    ]
    return [*PAGES, *single]


def _described_at(owner: PublicName, member: PublicName) -> PublicName:
    """Return the class a member is described with: that of users which it is inherited from."""
    own = vars(owner.value)
    if _short(member) in own:
        return owner
    bases = [entry for entry in _entries() if entry.value in owner.value.__mro__[1:]]
    having = [base for base in bases if hasattr(base.value, _short(member))]
    order = owner.value.__mro__
    return max(having, key=lambda base: order.index(base.value), default=owner)


def _short(name: PublicName) -> str:
    return name.name.rpartition(".")[2]


@cache
def _page_of(entry: PublicName) -> Page:
    face = entry.name.rpartition(".")[0]
    module = _module_of(entry)
    for page in _all_pages():
        if page.face == face and any(module.startswith(start) for start in page.modules):
            return page
    raise AssertionError(f"{entry.name} is on no page")


def _module_of(entry: PublicName) -> str:
    if entry.is_constant:
        return str(type(entry.value).__module__)
    return str(inspect.unwrap(entry.value).__module__)


def _home(name: PublicName, places: list[str]) -> str:
    """Return which of several places of an object is its own: the one its module is named after."""
    module = _module_of(name)

    def nearness(place: str) -> tuple[bool, int]:
        face = place.rpartition(".")[0].replace("sg", "symgrad", 1)
        return not module.startswith(f"{face}."), -len(face) if face != "symgrad" else 0

    return min(places, key=nearness)


@cache
def _places() -> dict[int, list[PublicName]]:
    found: dict[int, list[PublicName]] = {}
    for face, module in faces().items():
        for name in names_of(face, module):
            key = id(name.value) if not name.is_constant else id(name)
            found.setdefault(key, []).append(name)
    return found


@cache
def _entries() -> list[PublicName]:
    """Return each public name once, at its own place."""
    homes = []
    for places in _places().values():
        home = _home(places[0], [place.name for place in places])
        homes.append(next(place for place in places if place.name == home))
    return sorted(homes, key=lambda name: name.name)


@cache
def _aliases() -> dict[str, str]:
    """Return the other names of what has several, with the one it is described under."""
    found: dict[str, str] = {}
    for places in _places().values():
        home = _home(places[0], [place.name for place in places])
        found |= {place.name: home for place in places if place.name != home}
    return found


# ---------------------------------------------------------------------------------------- text


def _text_of(page: Page, names: list[PublicName]) -> str:
    by_module: dict[str, list[PublicName]] = {}
    for name in names:
        by_module.setdefault(_module_of(name), []).append(name)
    parts = [f"# {page.title}\n"]
    rank = {start: index for index, start in enumerate(page.modules)}
    order = sorted(by_module, key=lambda module: (_rank(module, rank), module))
    aliases = _aliases()
    for module in order:
        if len(order) > 1:
            parts.append(f"## {_heading(module)}\n")
        for name in by_module[module]:
            others = sorted(alias for alias, primary in aliases.items() if primary == name.name)
            parts.extend(_entry(name, others, "###" if len(order) > 1 else "##"))
    return "\n".join(parts)


def _rank(module: str, rank: dict[str, int]) -> int:
    return min(index for start, index in rank.items() if module.startswith(start))


def _heading(module: str) -> str:
    """Return what a module is about: its first line up to a colon or a stop."""
    if not module.startswith("symgrad"):
        return "Constants"
    line = str(inspect.getdoc(sys.modules[module])).partition("\n")[0]
    return _escaped(re.split(r"[:.](?:\s|$)", line)[0])


def _entry(name: PublicName, others: list[str], level: str) -> Iterator[str]:
    yield from _headed(name, level)
    if name.is_constant:
        yield f"`{name.value!r}`, of type `{type(name.value).__name__}`.\n"
        return
    yield _described(name.docstring)
    facts = facts_of(name)
    if others:
        facts["Also called"] = ", ".join(f"`{other}`" for other in others)
    facts["Source"] = f"`{_module_of(name).replace('.', '/')}.py`"
    listed = "\n".join(f"- {title}: {fact}" for title, fact in facts.items())
    yield f":::{{container}} facts\n{listed}\n:::\n"
    if inspect.isclass(name.value):
        if issubclass(name.value, enum.Enum):
            yield "Members: " + ", ".join(f"`{member.name}`" for member in name.value) + ".\n"
        members = members_of(name)
        owners = {_described_at(name, member).name for member in members} - {name.name}
        if owners:
            named = " and ".join(f"`{owner}`" for owner in sorted(owners))
            yield f"It also has what {named} has.\n"
        for member in members:
            if _described_at(name, member) == name:
                yield from _headed(member, f"{level}#")
                yield _described(member.docstring)


def _headed(name: PublicName, level: str) -> Iterator[str]:
    yield f"({label_of(name.name)})=\n"
    yield f"{level} `{name.name}`\n"
    signature = _signature(name)
    if signature:
        yield f"```python\n{signature}\n```\n"


def _signature(name: PublicName) -> str:
    if not name.is_callable:
        return ""
    try:
        signature = inspect.signature(name.value)
    except (TypeError, ValueError):
        return ""
    parts = _parameters(signature)
    result = _annotation(signature.return_annotation)
    end = f" -> {result}" if result and not inspect.isclass(name.value) else ""
    line = f"{name.name}({', '.join(parts)}){end}"
    if len(line) <= MAX_SIGNATURE:
        return line
    return f"{name.name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){end}"


def _parameters(signature: inspect.Signature) -> list[str]:
    """Return the parameters as they are written, with `/` and `*` where they belong."""
    parts = []
    kinds = [p.kind for p in signature.parameters.values() if p.name != "self"]
    for position, p in enumerate(p for p in signature.parameters.values() if p.name != "self"):
        before = kinds[position - 1] if position else None
        if before == p.POSITIONAL_ONLY != p.kind:
            parts.append("/")
        if p.kind == p.KEYWORD_ONLY and before not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL):
            parts.append("*")
        stars = "*" * (p.kind == p.VAR_POSITIONAL) + "**" * (p.kind == p.VAR_KEYWORD)
        annotation = _annotation(p.annotation)
        typed = f"{stars}{p.name}: {annotation}" if annotation else f"{stars}{p.name}"
        if p.default is not p.empty:
            typed += f" = {p.default!r}" if annotation else f"={p.default!r}"
        parts.append(typed)
    if kinds and kinds[-1] == inspect.Parameter.POSITIONAL_ONLY:
        parts.append("/")
    return parts


def _annotation(annotation: Any) -> str:
    """Return a type as it is written; nothing for what may be anything, and for None."""
    if annotation is inspect.Parameter.empty or annotation is None:
        return ""
    if isinstance(annotation, ForwardRef):
        return annotation.__forward_arg__
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return "" if text in ("Any", "typing.Any", "None") else text


def _described(docstring: str) -> str:
    """Return a docstring as Markdown: its examples and its formulas are blocks of their own."""
    parts = []
    for paragraph in re.split(r"\n\n+", docstring):
        if paragraph.lstrip().startswith(">>> "):
            parts.append(f"```pycon\n{inspect.cleandoc(paragraph)}\n```")
        elif all(line.startswith("    ") for line in paragraph.splitlines()):
            parts.append(f"```text\n{inspect.cleandoc(paragraph)}\n```")
        else:
            parts.append(_escaped(paragraph))
    return "\n\n".join(parts) + "\n"


def _escaped(text: str) -> str:
    """Escape what Markdown would take for markup, but for what is code."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*_<\[\]|$])", r"\\\1", p) for p in pieces)


def _index(entries: list[PublicName]) -> str:
    """Return the page that leads to the others, with every name there is."""
    parts = [
        "# Reference\n",
        "Every public name, from its docstring. An example takes `sg` for `symgrad` and `np` for "
        "`numpy`, and gives what is printed: all of them are run as tests.\n",
        "```{toctree}\n:maxdepth: 1\n",
    ]
    listed = [page for page in _all_pages() if any(_page_of(e) == page for e in entries)]
    parts[-1] += "\n".join(page.path for page in listed) + "\n```\n"
    for page in listed:
        names = ", ".join(f"`{e.name}`" for e in entries if _page_of(e) == page)
        parts.append(f"## {page.title}\n\n{names}\n")
    return "\n".join(parts)
