"""Fourier transforms, under the Array API's and NumPy's names: transforms, frequencies, shifts."""

import sys as _sys
from typing import Any as _Any

from symgrad.fft.frequencies import fftfreq as fftfreq
from symgrad.fft.frequencies import fftshift as fftshift
from symgrad.fft.frequencies import ifftshift as ifftshift
from symgrad.fft.frequencies import rfftfreq as rfftfreq
from symgrad.fft.several_axes import fft2 as fft2
from symgrad.fft.several_axes import fftn as fftn
from symgrad.fft.several_axes import ifft2 as ifft2
from symgrad.fft.several_axes import ifftn as ifftn
from symgrad.fft.several_axes import irfft2 as irfft2
from symgrad.fft.several_axes import irfftn as irfftn
from symgrad.fft.several_axes import rfft2 as rfft2
from symgrad.fft.several_axes import rfftn as rfftn
from symgrad.fft.transforms import fft as fft
from symgrad.fft.transforms import hfft as hfft
from symgrad.fft.transforms import ifft as ifft
from symgrad.fft.transforms import ihfft as ihfft
from symgrad.fft.transforms import irfft as irfft
from symgrad.fft.transforms import rfft as rfft
from symgrad.frontend.publication import publish as _publish
from symgrad.graph.late_binding import provide as _provide

__all__ = _publish(globals())


@_provide
def fft_extension() -> _Any:
    """Return this module, as which the Array API's namespace has it."""
    return _sys.modules[__name__]
