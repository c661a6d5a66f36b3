"""Write `docs/ops.md`, the list of what users know as ops, from the declarations of these.

`python tools/update_ops.py` writes the page; a test says when it has to be. The text is that of
`python -m symgrad ops` (`symgrad/commands/op_index.py`).
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # a script is given the folder it lies in

PAGE = ROOT / "docs" / "ops.md"


def main() -> None:
    """Write the page."""
    from symgrad.commands.op_index import page  # once the folder above is on the path

    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
