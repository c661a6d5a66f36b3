"""Machine code for modules of LLVM IR: compiled or found, loaded, and shared by equal modules."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from weakref import WeakValueDictionary

from symgrad.codegen.llvm.linkable import LinkableModule, kernel_symbols, leaf_symbols
from symgrad.codegen.llvm.module import STEP
from symgrad.codegen.native.jit import LoadedCode, load_objects
from symgrad.codegen.native.object_store import ObjectStore, object_store
from symgrad.codegen.native.objects import ObjectsOfKernels, ProgramObjects, compile_module
from symgrad.codegen.native.team import team_symbols
from symgrad.codegen.target import Target
from symgrad.forks import held_over_forks
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class CodeName:
    """What code is found again by: the name by content of its entry.

    `target` and `opt_level` are what it was compiled for.
    """

    entry: str
    target: Target
    opt_level: int


Emit = Callable[[], LinkableModule]
FindLeaves = Callable[[Iterable[str]], list[bytes]]

_NO_LEAVES: Mapping[str, LoadedCode] = MappingProxyType({})
# Leaf functions by symbol and what they were compiled for: in memory once, while code calls them.
_leaves: WeakValueDictionary[tuple[str, Target, int], LoadedCode] = WeakValueDictionary()
# Likewise entries that are closures, and the kernels of an object, by the digests of objects.
_closed: WeakValueDictionary[tuple[str, Target, int], LoadedCode] = WeakValueDictionary()
_lock = held_over_forks()

_CACHE_SIZE = 256  # programs whose code stays loaded for the next compilation of an equal one
_loaded: OrderedDict[CodeName, LoadedCode] = OrderedDict()


def code_name(module: LinkableModule, target: Target, opt_level: int) -> CodeName:
    """Return the name of the code of a module."""
    return CodeName(module.entry, target, opt_level)


def machine_code(
    module: LinkableModule,
    target: Target,
    opt_level: int,
    *,
    is_shared: bool = True,
    emit: Emit | None = None,
) -> LoadedCode:
    """Compile a module and load it.

    If it `is_shared`, equal modules have the same code, and other processes find its object.
    `emit` gives the module with all its kernels, where it leaves out some that are known.
    """
    name = code_name(module, target, opt_level)
    whole = emit or (lambda: module)
    if not is_shared:
        return _compiled(module, whole, name, None)
    code = _loaded.get(name) or _compiled(module, whole, name, object_store())
    return _shared(name, code)


def known_code(name: CodeName) -> LoadedCode | None:
    """Return the code of a module that this process or another has compiled, None without."""
    code = _loaded.get(name)
    if code is not None:
        return _shared(name, code)
    store = object_store()
    if store is None:
        return None
    there = _in_memory(name)
    objects = _objects_of(store, name, there)
    found = objects.images_of(name.entry)
    if found is None:
        return None
    try:
        find = partial(objects.images_of_leaves, module=None)
        return _shared(name, _link(found, name, find, there))
    except AssertionError:
        return None  # see `_compiled`


def _shared(name: CodeName, code: LoadedCode) -> LoadedCode:
    _loaded[name] = code
    _loaded.move_to_end(name)
    while len(_loaded) > _CACHE_SIZE:
        _loaded.popitem(last=False)
    return code


def _compiled(
    module: LinkableModule, emit: Emit, name: CodeName, store: ObjectStore | None
) -> LoadedCode:
    if store is None:
        return _load(compile_module(module, name.target, name.opt_level), name)
    there = _in_memory(name)
    objects = _objects_of(store, name, there)
    find = partial(objects.images_of_leaves, module=module)
    try:
        return _link(objects.images(module), name, find, there)
    except AssertionError:
        # What was found does not fit together, or not all that was known is there any more.
        whole = emit()
        find = partial(objects.images_of_leaves, module=whole)
        return _link(objects.made_anew(whole), name, find)


# Code in memory by the digests of objects, which stays there while this does.
InMemory = dict[str, LoadedCode]


def _in_memory(name: CodeName) -> InMemory:
    """Return the code of closures and of the kernels that they call."""
    made_for = name.target, name.opt_level
    with _lock:  # other threads put some there
        there = [*_closed.items()]
    return {digest: code for (digest, *of), code in there if (*of,) == made_for}


def _objects_of(store: ObjectStore, name: CodeName, there: InMemory) -> ObjectsOfKernels:
    in_memory = {digest: code.symbols for digest, code in there.items()}
    return ObjectsOfKernels(store, name.target, name.opt_level, in_memory)


def _link(
    program: ProgramObjects, name: CodeName, find: FindLeaves, there: InMemory | None = None
) -> LoadedCode:
    """Load the objects of a program that are not `there`, and the leaf functions that they call."""
    images = [*program.images.values()]
    if program.passed is None:
        return _load(images, name, _leaves_of(images, name, find))
    there = {} if there is None else there
    new = {digest: image for digest, image in program.images.items() if digest not in there}
    symbols = {value for value in program.passed if isinstance(value, str)}
    called = {symbol for image in new.values() for symbol in leaf_symbols(image)}
    passed = {symbol for symbol in symbols if symbol.startswith("leaf.")}
    leaves = _found_leaves(called | passed, name, find)
    for digest, image in new.items():
        defined = {symbol: symbol for symbol in kernel_symbols(image)} or {STEP: STEP}
        own = {symbol: leaves[symbol] for symbol in leaf_symbols(image) if symbol in leaves}
        there[digest] = _load_with(own, [image], defined)
        with _lock:
            _closed[digest, name.target, name.opt_level] = there[digest]
    *kernels, entry = (there[digest] for digest in program.images)
    at = {symbol: code for code in reversed(kernels) for symbol in code.symbols}
    at.update(leaves)
    assert symbols <= at.keys(), f"{symbols - at.keys()} are in no object"
    numbers = [at[v].address(v) if isinstance(v, str) else v for v in program.passed]
    return entry.closure(numbers, list(dict.fromkeys(at[symbol] for symbol in symbols)))


def _leaves_of(images: list[bytes], name: CodeName, find: FindLeaves) -> Mapping[str, LoadedCode]:
    called = {symbol for image in images for symbol in leaf_symbols(image)}
    return _found_leaves(called, name, find)


def _found_leaves(
    called: Collection[str], name: CodeName, find: FindLeaves
) -> Mapping[str, LoadedCode]:
    """Return the code of leaf functions, loaded where it is not; `find` gives the objects."""
    made_for = name.target, name.opt_level
    leaves = {symbol: _leaves.get((symbol, *made_for)) for symbol in called}
    found = find(sorted(symbol for symbol, code in leaves.items() if code is None))
    if found:
        defined = {symbol: symbol for image in found for symbol in leaf_symbols(image)}
        code = load_objects(found, defined)
        for symbol in defined:
            leaves[symbol] = _leaves[symbol, *made_for] = code
    return {s: code for s, code in leaves.items() if code is not None}


def _load(
    images: list[bytes], name: CodeName, leaves: Mapping[str, LoadedCode] = _NO_LEAVES
) -> LoadedCode:
    return _load_with(leaves, images, {STEP: name.entry})


def _load_with(
    leaves: Mapping[str, LoadedCode], images: list[bytes], symbols: Mapping[str, str]
) -> LoadedCode:
    imports = {symbol: code.address(symbol) for symbol, code in leaves.items()}
    called = list(dict.fromkeys(leaves.values()))
    return load_objects(images, symbols, {**imports, **team_symbols(images)}, called=called)
