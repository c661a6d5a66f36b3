"""Methods of a GEMM, packings of its operands and orders of its loops: what plans choose from."""

from __future__ import annotations

from typing import Literal

Axis = Literal["n", "m"]
# The lanes of an accumulator are columns of the result ("tile"), or terms of one sum ("dot"); or
# columns whose terms are added up in pairs ("pairs"), or in squares by a matrix unit ("matrix"); or
# the even and the odd terms of columns, beside each other ("split"). Those of "held" are columns,
# too, and registers hold all terms of the right.
Method = Literal["tile", "dot", "pairs", "matrix", "split", "held"]
# How a panel of an operand is brought to the order the microkernel reads it in: not at all, by
# copying vectors that lie along the panel, by transposing squares of vectors that lie along k, by
# element; or, for "dot", each line of it made contiguous along k; or in squares of pairs of terms.
# Of windows, which overlap, the pixels that a block of k reads are copied, each once. For "split"
# the elements of two steps of k come in turns.
Packing = Literal["none", "copy", "transpose", "gather", "lines", "pairs", "windows", "split"]
# Along which axis the next product goes on where one ends.
GoesOn = Literal["rows", "columns", "k"]
