"""Machine code for modules of LLVM IR: compiled or found, loaded, and shared by equal modules."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from symgrad.codegen.llvm.linkable import LinkableModule
from symgrad.codegen.llvm.module import STEP
from symgrad.codegen.native.jit import LoadedCode, load_objects
from symgrad.codegen.native.object_store import ObjectStore, digest_of, object_store
from symgrad.codegen.native.objects import ObjectsOfKernels, compile_object
from symgrad.codegen.native.team import team_symbols
from symgrad.codegen.target import Target


@dataclass(frozen=True, slots=True)
class CodeName:
    """What code is found again by: a digest of the module, and the name of its entry there.

    `target` and `opt_level` are what it was compiled for.
    """

    digest: str
    entry: str
    target: Target
    opt_level: int


_CACHE_SIZE = 256  # programs whose code stays loaded for the next compilation of an equal one
_loaded: OrderedDict[CodeName, LoadedCode] = OrderedDict()


def code_name(module: LinkableModule, target: Target, opt_level: int) -> CodeName:
    """Return the name of the code of a module."""
    return CodeName(digest_of(module.whole), module.symbols[STEP], target, opt_level)


def machine_code(
    module: LinkableModule, target: Target, opt_level: int, *, is_shared: bool = True
) -> LoadedCode:
    """Compile a module and load it.

    If it `is_shared`, equal modules have the same code, and other processes find its object.
    """
    name = code_name(module, target, opt_level)
    if not is_shared:
        return _compiled(module, name, None)
    code = _loaded.get(name) or _compiled(module, name, object_store())
    return _shared(name, code)


def known_code(name: CodeName) -> LoadedCode | None:
    """Return the code of a module that this process or another has compiled, None without."""
    code = _loaded.get(name)
    if code is not None:
        return _shared(name, code)
    store = object_store()
    if store is None:
        return None
    images = ObjectsOfKernels(store, name.target, name.opt_level).images_of(name.digest)
    if images is None:
        return None
    try:
        return _shared(name, _load(images, name))
    except AssertionError:
        return None  # see `_compiled`


def _shared(name: CodeName, code: LoadedCode) -> LoadedCode:
    _loaded[name] = code
    _loaded.move_to_end(name)
    while len(_loaded) > _CACHE_SIZE:
        _loaded.popitem(last=False)
    return code


def _compiled(module: LinkableModule, name: CodeName, store: ObjectStore | None) -> LoadedCode:
    if store is None:
        return _load([compile_object(module.whole, name.target, name.opt_level)], name)
    objects = ObjectsOfKernels(store, name.target, name.opt_level)
    try:
        return _load(objects.images(module), name)
    except AssertionError:
        # What was found does not fit together, which takes more than damage to a file.
        return _load(objects.made_anew(module), name)


def _load(images: list[bytes], name: CodeName) -> LoadedCode:
    return load_objects(images, {STEP: name.entry}, team_symbols(images))
