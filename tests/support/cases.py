"""The table: at least one row for every op, and rows for the public compositions."""

from __future__ import annotations

from tests.support.array_cases import ARRAY_CASES
from tests.support.attention_cases import ATTENTION
from tests.support.case import Case
from tests.support.complex_cases import COMPLEX
from tests.support.complex_linalg_cases import COMPLEX_LINALG
from tests.support.composition_cases import COMPOSITIONS
from tests.support.control_cases import CONTROL_CASES
from tests.support.convolution_cases import CONVOLUTIONS
from tests.support.elementary_cases import ELEMENTARY
from tests.support.elementwise_cases import ELEMENTWISE
from tests.support.fourier_cases import FOURIER
from tests.support.gate_cases import GATES
from tests.support.layer_op_cases import LAYER_OPS
from tests.support.linalg_cases import LINALG
from tests.support.loss_cases import LOSS_CASES
from tests.support.numerical_cases import NUMERICAL
from tests.support.prefix_cases import PREFIX_SCANS
from tests.support.random_cases import RANDOM
from tests.support.sorting_cases import SORTING
from tests.support.special_cases import SPECIAL
from tests.support.structural_cases import STRUCTURAL
from tests.support.window_cases import WINDOWS
from tests.support.writing_cases import WRITING

CASES: tuple[Case, ...] = (
    *ELEMENTWISE,
    *ELEMENTARY,
    *SPECIAL,
    *GATES,
    *STRUCTURAL,
    *SORTING,
    *COMPOSITIONS,
    *LAYER_OPS,
    *ATTENTION,
    *ARRAY_CASES,
    *CONTROL_CASES,
    *WINDOWS,
    *WRITING,
    *PREFIX_SCANS,
    *RANDOM,
    *LOSS_CASES,
    *NUMERICAL,
    *CONVOLUTIONS,
    *LINALG,
    *COMPLEX_LINALG,
    *FOURIER,
    *COMPLEX,
)
