"""Run the problems of GradBench: `python -m benchmarks.gradbench [--quick] [--json PATH]`."""

from benchmarks.gradbench import measure
from benchmarks.report import run_as_program

if __name__ == "__main__":
    run_as_program(__doc__, measure)
