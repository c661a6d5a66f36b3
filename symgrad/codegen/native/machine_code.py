"""Machine code for modules of LLVM IR: compiled or found, loaded, and shared by equal modules."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from symgrad.codegen.llvm.linkable import LinkableModule
from symgrad.codegen.llvm.module import STEP
from symgrad.codegen.native.jit import LoadedCode, load_objects
from symgrad.codegen.native.object_store import ObjectStore, object_store
from symgrad.codegen.native.objects import ObjectsOfKernels, compile_object
from symgrad.codegen.native.openmp import runtime_symbols
from symgrad.codegen.target import Target

_CACHE_SIZE = 256  # programs whose code stays loaded for the next compilation of an equal one
_loaded: OrderedDict[bytes, LoadedCode] = OrderedDict()


def machine_code(
    module: LinkableModule, target: Target, opt_level: int, *, is_shared: bool = True
) -> LoadedCode:
    """Compile a module and load it.

    If it `is_shared`, equal modules have the same code, and other processes find its object.
    """
    if not is_shared:
        return _compiled(module, target, opt_level, None)
    key = f"{target}\n{opt_level}\n{module.emitted}".encode()
    digest = hashlib.blake2b(key, digest_size=20).digest()
    code = _loaded.pop(digest, None) or _compiled(module, target, opt_level, object_store())
    _loaded[digest] = code
    while len(_loaded) > _CACHE_SIZE:
        _loaded.popitem(last=False)
    return code


def _compiled(
    module: LinkableModule, target: Target, opt_level: int, store: ObjectStore | None
) -> LoadedCode:
    if store is None:
        return _load([compile_object(module.text(module.kernels), target, opt_level)], module)
    objects = ObjectsOfKernels(store, target, opt_level)
    try:
        return _load(objects.images(module), module)
    except AssertionError:
        # What was found does not fit together, which takes more than damage to a file.
        return _load(objects.made_anew(module), module)


def _load(images: list[bytes], module: LinkableModule) -> LoadedCode:
    return load_objects(images, {STEP: module.symbols[STEP]}, runtime_symbols(images))
