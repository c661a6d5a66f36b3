"""What Fourier transforms refuse: the function that was called, both values, the line."""

from __future__ import annotations

from typing import Any

import pytest

import symgrad as sg
from symgrad.errors import SymgradError

FFT: Any = sg.fft  # which is given what a type checker would refuse
X = sg.placeholder((3, 4), name="x")
Z = sg.placeholder((3, 4), "complex64", name="z")
EMPTY = sg.placeholder((3, 0), name="empty")

REFUSED = {
    "fft: n must be 1 or more, it is 0": lambda: FFT.fft(X, n=0),
    "fft: n must be an int, it is 2.5": lambda: FFT.fft(X, n=2.5),
    "fft: axis 2 is not an axis of a tensor of rank 2": lambda: FFT.fft(X, axis=2),
    "ifft: norm 'unitary' is none of backward, ortho, forward": (
        lambda: FFT.ifft(X, norm="unitary")
    ),
    "fft: x: f32[] has no axis": lambda: FFT.fft(1.0),
    "fft: x: f32[3, 0] has no numbers on axis 1": lambda: FFT.fft(EMPTY),
    "fft: bool[2] is no number": lambda: FFT.fft([True, False]),
    "rfft: x: c64[3, 4] is not real": lambda: FFT.rfft(Z),
    "ihfft: x: c64[3, 4] is not real": lambda: FFT.ihfft(Z),
    "irfft: n must be 1 or more, it is 0": lambda: FFT.irfft(Z[:, :1]),
    "hfft: x: f32[3, 0] has no numbers on axis 1": lambda: FFT.hfft(EMPTY),
    "rfftn: x: c64[3, 4] is not real": lambda: FFT.rfftn(Z),
    "fftn: 1 sizes for 2 axes": lambda: FFT.fftn(X, s=(3,), axes=(0, 1)),
    "fftn: an axis is repeated in (0, -2)": lambda: FFT.fftn(X, axes=(0, -2)),
    "irfftn: there is no axis to transform along": lambda: FFT.irfftn(X, axes=()),
    "fft2: axis -2 is not an axis of a tensor of rank 1": lambda: FFT.fft2(X[0]),
    "fftfreq: n must be 1 or more, it is -1": lambda: FFT.fftfreq(-1),
    "rfftfreq: int32 is no real floating dtype": lambda: FFT.rfftfreq(4, dtype="int32"),
    "fftshift: axis 5 is not an axis of a tensor of rank 2": lambda: FFT.fftshift(X, axes=5),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused_names_the_function_and_both_values(message):
    with pytest.raises(SymgradError) as caught:
        REFUSED[message]()
    first = str(caught.value).splitlines()[0]
    assert first == message
    assert "test_fourier_messages.py" in str(caught.value)
