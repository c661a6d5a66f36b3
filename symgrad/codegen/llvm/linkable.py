"""Separate compilation: the kernels of a module under names that say what their code is.

    define internal void @"k0"(ptr %.0)     and     @"k.5f0c..." = weak_odr alias ..., ptr @"k0"

Content addressing: a kernel is named after the text of all that it calls and reads. So a symbol
stands for the same code in the modules of all programs: what one of them was compiled to can be
linked to another that has the kernel too, and a module may declare kernels that are compiled
already. Leaf functions, such as the tiles of products (`contract/kernels/leaf_functions.py`), have
such names too, `leaf.5f0c...`, and a module of their own. What else is inside a module stays there.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from symgrad.codegen import ir
from symgrad.codegen.contract.kernels.leaf_functions import Leaf
from symgrad.codegen.llvm.entry_closure import EntryClosure, entry_closure
from symgrad.codegen.llvm.known_kernel import NONE_KNOWN, KnownKernel, Passed
from symgrad.codegen.llvm.similar_kernels import SIMILAR
from symgrad.forks import cached_property

_REFERENCE = re.compile(r'@"([^"]*)"')
_METADATA = re.compile(r"!(\d+)\b")
_DIGITS = 32  # of a digest, in a name
_BY_CONTENT = re.compile(rf"\b[\w.]+\.[0-9a-f]{{{_DIGITS}}}\b")
# What is before a number is looked at behind its first digit, which is what is searched for.
_NUMBER = re.compile(r'[0-9](?<![\w."][0-9])[0-9]*')
_MERGED = f'@"{SIMILAR}'
_LEAF = re.compile(rb"leaf\.[0-9a-f]{%d}" % _DIGITS)
_KERNEL = re.compile(rb"\bk\.[0-9a-f]{%d}" % _DIGITS)


def _digest_of(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


def _only_calls(text: str) -> bool:
    """Return whether a function is one that is not optimized, since it does nothing but call."""
    return " optnone " in text.partition("\n")[0]


def leaf_symbols(image: bytes) -> list[str]:
    """Return the names of the leaf functions that an object file defines or calls."""
    return sorted({found.decode() for found in _LEAF.findall(image)})


def kernel_symbols(image: bytes) -> list[str]:
    """Return the names of the kernels that an object file of kernels defines."""
    return sorted({found.decode() for found in _KERNEL.findall(image)})


class LinkableModule:
    """The text of a module, as a whole or without the kernels that are elsewhere.

    `kernels` are the names of the functions to be named by their content, `entry` that of the one
    function that is called from outside. What the module includes are leaf functions. `emitted` is
    the module with the names it was made with. Of kernels whose code is elsewhere the module has
    declarations only, of what is `known` of them, and so it has of leaf functions elsewhere.
    """

    def __init__(
        self,
        module: ir.Module,
        entry: str,
        kernels: Iterable[str],
        known: Mapping[str, KnownKernel] = NONE_KNOWN,
    ) -> None:
        self._module = module
        self._known = {name: kept for name, kept in known.items() if name in module.globals}
        self._texts = {g.ref[2:-1]: "\n".join(g.lines()) for g in module.globals.values()}
        # As one that is defined is declared where it is not.
        for name in (*self._known, *module.elsewhere):
            self._texts[name] = module.globals[name].header
        head = [f'target triple = "{module.triple}"'] if module.triple else []
        self.emitted = "\n".join([*head, *self._texts.values(), *module.metadata, ""])
        self._entry = entry
        # Of kernels that are one function, that.
        merged = {name: into.name for name, (_, into) in module.merged.items()}
        self._computing = {name: merged.get(name, name) for name in kernels}
        there = (name for name in self._computing.values() if name in module.globals)
        self._kernels = list(dict.fromkeys(there))
        self._leaves = [function.name for function in module.included.values()]
        self._digests = {name: kept.digest for name, kept in self._known.items()}
        self._digests |= module.elsewhere
        # Leaf functions that known kernels are passed are called by their digests. What is declared
        # of them comes last, for they have no attributes.
        self._passed = [n for kept in self._known.values() for n in kept.leaves]
        self._digests |= {name: name for name in self._passed}
        self._texts |= {name: self._texts.pop(name) for name in dict.fromkeys(self._passed)}
        self._nodes: dict[str, str] = {}
        self._shapes: dict[str, str] = {}

    @cached_property
    def symbols(self) -> Mapping[str, str]:
        """The names by content of the entry, and of kernels and leaves, which may agree."""
        kinds = dict.fromkeys(self._kernels, "k")
        kinds |= dict.fromkeys([*self._leaves, *self._module.elsewhere, *self._passed], "leaf")
        kinds[self._entry] = self._entry
        return {name: f"{kind}.{self.digest(name)[:_DIGITS]}" for name, kind in kinds.items()}

    @property
    def is_whole(self) -> bool:
        """Whether all kernels and leaf functions were emitted."""
        return not self._known and not self._module.elsewhere

    @property
    def known(self) -> set[str]:
        """The names by content of the kernels that were not emitted."""
        return {self.symbols[name] for name in self._known}

    def emitted_kernels(self) -> list[str]:
        """Return the names of the kernels that were emitted, and not merged with similar ones."""
        there = (name for name in self._kernels if name not in self._known)
        return [name for name in there if _MERGED not in self._texts[name]]

    def passed(self, kernel: str) -> list[str]:
        """Return the names of the leaf functions that calls pass to a kernel."""
        module = self._module
        if kernel in module.merged:
            lifted = module.merged[kernel][0].lifted
        else:
            lifted = module.globals[kernel].lifted if kernel in module.globals else []
        return [value.name for value in lifted if isinstance(value, ir.LLVMFunction)]

    def known_as(self, kernel: str) -> KnownKernel:
        """Return what another module has to know of a kernel to call it."""
        lifted = self._module.globals[kernel].lifted
        return KnownKernel(self.digest(kernel), tuple(map(self._passed_as, lifted)))

    def _passed_as(self, value: ir.Value) -> Passed:
        if not isinstance(value, ir.LLVMFunction):
            return Passed(value.type.text, value.ref)
        takes = tuple(kind.text for kind in value.function_type.takes)
        return Passed(value.type.text, self.digest(value.name), takes)

    def shape(self, kernel: str) -> str:
        """Return the digest of what a kernel has in common with all that differ in numbers only."""
        digest = self.digest(kernel)  # many kernels have the code of another one
        if digest not in self._shapes:
            text = self._canonical(kernel).replace(digest, "")
            self._shapes[digest] = _digest_of(_NUMBER.sub("#", text))
        return self._shapes[digest]

    @cached_property
    def calls(self) -> str | None:
        """The module without kernels and leaf functions, if that does nothing but call these.

        None if it does anything else, or is one short function: then it is compiled with them,
        unless some are elsewhere.
        """
        is_short = sum(self._texts[name].startswith("define") for name in self._calling) == 1
        return self.alone if self.only_calls and not is_short else None

    @cached_property
    def _calling(self) -> set[str]:
        """The entry and what it calls besides kernels and leaf functions."""
        others = {name: symbol for name, symbol in self.symbols.items() if name != self._entry}
        return self._reached([self._entry], others)

    @property
    def only_calls(self) -> bool:
        """Whether what is not kernels and leaf functions does nothing but call these."""
        called = (self._texts[name] for name in self._calling)
        return all(_only_calls(text) for text in called if text.startswith("define"))

    @cached_property
    def alone(self) -> str:
        """The module without kernels and leaf functions."""
        return self._text([self._entry])

    @cached_property
    def closure(self) -> EntryClosure | None:
        """The entry as a closure, None where it is not one function that does nothing but call."""
        others = {name: symbol for name, symbol in self.symbols.items() if name != self._entry}
        return entry_closure(self._module.globals[self._entry], others)

    @property
    def optimized(self) -> str:
        """The module without leaf functions, which it declares by the names they were made with."""
        assert self.is_whole, "kernels that were not emitted are elsewhere"
        return self._text([self._entry, *self._kernels], self._texts)

    @property
    def computing(self) -> str:
        """What is in `optimized`, without an entry that is among `calls`."""
        return self.optimized if self.calls is None else self._text(self._kernels, self._texts)

    @property
    def entry(self) -> str:
        """The name by content of the entry, and so of all that runs."""
        return self.symbols[self._entry]

    @property
    def kernels(self) -> list[str]:
        """The names by content of all kernels, each once."""
        return list(dict.fromkeys(self.symbols[name] for name in self._kernels))

    @property
    def leaves(self) -> list[str]:
        """The names by content of all leaf functions that were emitted, each once."""
        return list(dict.fromkeys(self.symbols[name] for name in self._leaves))

    def text(self, defined: Collection[str]) -> str:
        """Return the module with the kernels that have the symbols `defined`, and declared others.

        What is defined can be linked to under its name by content. Leaf functions are declared. The
        entry is there unless it is among `calls`.
        """
        there = self._of_symbols(defined)
        return self._text(there if self.calls is not None else [self._entry, *there])

    def text_of_kernels(self, defined: Collection[str]) -> str:
        """Return a module of the kernels that have the symbols `defined`, without the entry."""
        return self._text(self._of_symbols(defined))

    def _of_symbols(self, defined: Collection[str]) -> list[str]:
        return [name for name in self._kernels if self.symbols[name] in defined]

    def text_of_leaves(self, defined: Collection[str]) -> str:
        """Return a module of the leaf functions that have the symbols `defined`."""
        return self._text([name for name in self._leaves if self.symbols[name] in defined])

    def names_of_leaves(self) -> dict[Leaf, tuple[str, str]]:
        """Return the names by content and digests of leaf functions by what they are made of."""
        made_of = {leaf: function.name for leaf, function in self._module.made_of.items()}
        return {leaf: (self.symbols[n], self.digest(n)) for leaf, n in made_of.items()}

    @cached_property
    def same_code(self) -> Mapping[str, str]:
        """Of each kernel the first one that is the same function, though calls pass other sizes."""
        first: dict[str, str] = {}
        same = {name: first.setdefault(self.symbols[name], name) for name in self._kernels}
        return same | {n: same[by] for n, by in self._computing.items() if by in same}

    def _text(self, named: Sequence[str], made_with: Collection[str] = ()) -> str:
        """Return a module of the functions `named`, by their content, and what only they call.

        Others are declared by their content too, or by the names that they were `made_with`.
        """
        defined = {self.symbols[name]: name for name in reversed(named)}
        # Not functions of these names: linkage that allows another definition keeps LLVM from
        # concluding what a function reads and writes, which loops are half as fast without.
        elsewhere = {
            name: defined.get(symbol, name if name in made_with else symbol)
            for name, symbol in self.symbols.items()
            if defined.get(symbol) != name
        }
        needed = self._reached(defined.values(), elsewhere)
        called = {callee for name in needed for callee in self._callees[name]}
        lines = [f'target triple = "{self._module.triple}"'] if self._module.triple else []
        declared = set(defined.values())
        for name, text in self._texts.items():
            if name in needed:
                is_entry = name == self._entry
                lines.append(text.replace("define", "define internal", 1) if is_entry else text)
            elif name in called and elsewhere[name] not in declared:
                declared.add(elsewhere[name])
                header = text.partition(" {\n")[0]
                lines.append(header.replace("define internal", "declare", 1))
        # Leaf functions refer to no metadata.
        metadata = () if set(named) <= set(self._leaves) else self._module.metadata
        whole = "\n".join([*lines, *metadata, ""])
        if not called.isdisjoint(elsewhere):
            whole = _REFERENCE.sub(lambda found: f'@"{elsewhere.get(found[1], found[1])}"', whole)
        return whole + self._aliases(defined)

    def _aliases(self, defined: Mapping[str, str]) -> str:
        """Return the lines that give functions their names by content."""
        return "".join(
            f'@"{symbol}" = weak_odr alias {self._module.globals[name].function_type.text}, '
            f'ptr @"{name}"\n'
            for symbol, name in reversed([*defined.items()])
        )

    @staticmethod
    def without_aliases(text: str) -> str:
        """Return a text that LLVM made of this module, without the lines of names by content."""
        lines = text.splitlines(keepends=True)
        return "".join(line for line in lines if _BY_CONTENT.search(line) is None)

    @cached_property
    def _callees(self) -> dict[str, list[str]]:
        return {
            name: [ref for ref in dict.fromkeys(_REFERENCE.findall(text)) if ref != name]
            for name, text in self._texts.items()
        }

    def _reached(self, starts: Iterable[str], without: Collection[str]) -> set[str]:
        """Return `starts` and what they need, but for what is in `without`, and for that."""
        pending = list(starts)
        reached = set(pending)
        while pending:
            new = set(self._callees[pending.pop()]).difference(without, reached)
            reached |= new
            pending += new
        return reached

    def digest(self, start: str) -> str:
        """Return the digest of the text of `start` and of what it needs, whatever that is named."""
        pending = [start]
        while pending:
            name = pending[-1]
            missing = [c for c in self._callees[name] if c not in self._digests]
            if missing and name not in self._digests:
                assert missing[0] not in pending, f"{name} calls itself through another"
                pending.append(missing[0])
                continue
            pending.pop()
            if name not in self._digests:
                self._digests[name] = _digest_of(self._canonical(name))
        return self._digests[start]

    def _canonical(self, name: str) -> str:
        """Return the text of `name` with digests in the place of names, and metadata written out.

        What is declared only is called by its name wherever it is.
        """
        text = self._texts[name]
        if text.startswith("declare"):
            return text
        named = _REFERENCE.sub(lambda found: f'@"{self._digests.get(found[1], "")}"', text)
        return _METADATA.sub(self._node, named)

    def _node(self, found: re.Match[str]) -> str:
        number = found[1]
        if number not in self._nodes:
            text = self._module.metadata[int(number)].partition(" = ")[2]
            self._nodes[number] = _METADATA.sub(self._node, text)
        return self._nodes[number]
