"""Machine code for modules of LLVM IR: compiled, loaded, and shared by modules that are equal."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from symgrad.codegen.llvm.module import STEP
from symgrad.codegen.native.jit import LoadedCode, emit_object, load_object, optimize
from symgrad.codegen.native.openmp import runtime_symbols
from symgrad.codegen.target import Target

_CACHE_SIZE = 256  # programs whose code stays loaded for the next compilation of an equal one
_loaded: OrderedDict[bytes, LoadedCode] = OrderedDict()


def machine_code(
    module_text: str, target: Target, opt_level: int, *, is_shared: bool = True
) -> LoadedCode:
    """Compile a module and load it; equal modules share their code if it `is_shared`."""
    if not is_shared:
        return _compiled(module_text, target, opt_level)
    key = f"{target}\n{opt_level}\n{module_text}".encode()
    digest = hashlib.blake2b(key, digest_size=20).digest()
    code = _loaded.pop(digest, None) or _compiled(module_text, target, opt_level)
    _loaded[digest] = code
    while len(_loaded) > _CACHE_SIZE:
        _loaded.popitem(last=False)
    return code


def _compiled(module_text: str, target: Target, opt_level: int) -> LoadedCode:
    image = emit_object(optimize(module_text, target, opt_level), target, opt_level)
    return load_object(image, [STEP], runtime_symbols(module_text))
