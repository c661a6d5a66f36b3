"""The site: its links are checked, its reference has every public name, and it builds."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.api_pages import PAGES, label_of, pages, targets
from tools.build_docs import complete_marks
from tools.check_links import problems
from tools.public_names import public_names

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def reference() -> dict[str, str]:
    return pages()


def site_of(folder: Path, **pages_of: str) -> list[str]:
    for name, text in pages_of.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return problems(folder)


# -------------------------------------------------------------------------- the link checker


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("two.html", None),
        ("two.html#there", None),
        ("#here", None),
        ("https://example.org/nothing", None),
        ("three.html", "one.html: three.html is no file"),
        ("two.html#gone", "one.html: two.html#gone has no such anchor"),
        ("#gone", "one.html: #gone has no such anchor"),
    ],
)
def test_a_link_that_leads_nowhere_is_told(tmp_path, link, problem):
    found = site_of(
        tmp_path, one=f'<p id="here"><a href="{link}">x</a></p>', two='<h1 id="there">x</h1>'
    )
    assert found == ([] if problem is None else [problem])


def test_what_is_loaded_from_elsewhere_is_told(tmp_path):
    (tmp_path / "site.css").write_text("@import 'https://example.org/x.css';", encoding="utf-8")
    found = site_of(tmp_path, one='<script src="https://example.org/x.js"></script>')
    assert found == [
        "one.html loads https://example.org/x.js from elsewhere",
        "site.css loads https://example.org/x.css from elsewhere",
    ]


def test_a_name_in_a_table_breaks_between_its_parts(tmp_path):
    name = '<span class="pre">{}</span>'
    cell = f"<td><code>{name.format('sg.nn.log_softmax(x)')}</code></td>"
    text = f"<p>{name.format('sg.nn')}</p>{cell}"
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    complete_marks(tmp_path)
    broken = cell.replace("sg.nn.log_softmax", "sg.<wbr>nn.<wbr>log_<wbr>softmax")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == text.replace(cell, broken)


# ------------------------------------------------------------------------------ the reference


def test_every_public_name_is_in_the_reference(reference):
    places = targets()
    missing = [n.name for n in public_names() if n.name not in places and "." in n.name]
    aliases = {n for n in missing if n.rpartition(".")[0] in places}  # methods of an alias
    assert set(missing) <= aliases
    assert places["sg.Variable.sum"] == places["sg.Tensor.sum"]
    for name, place in places.items():
        page, _, label = place.partition("#")
        assert f"({label})=" in reference[page], f"{name} is not at {place}"


def test_labels_tell_capitals_apart(reference):
    assert label_of("sg.Variable") != label_of("sg.variable")
    for page, text in reference.items():
        labels = re.findall(r"^\((.*)\)=$", text, re.MULTILINE)
        assert len(labels) == len(set(labels)), page


def test_an_entry_has_signature_example_and_facts(reference):
    entry = reference["elementwise.md"].partition("### `sg.tanh`")[2].partition("### `")[0]
    assert "sg.tanh(x, /) -> Tensor" in entry
    assert ">>> sg.run(sg.tanh(" in entry
    assert "integers" in entry
    assert "→ float32" in entry
    assert "- Gradient: by `x`" in entry
    assert "- Shape: that of `x`" in entry
    assert "`np.tanh`" in entry
    assert "- Source: `symgrad/graph/ops/transcendental.py`" in entry


def test_an_op_without_gradient_says_so(reference):
    entry = reference["elementwise.md"].partition("### `sg.floor`")[2].partition("### `")[0]
    assert "- Gradient: none" in entry


def test_no_page_of_the_reference_stays_empty(reference):
    assert {f"{page.path}.md" for page in PAGES} - {"more.md"} <= set(reference)


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_its_links_lead_somewhere(tmp_path):
    # In a process of its own: what Sphinx is warned of is not for the tests to fail by.
    command = [sys.executable, "tools/build_docs.py", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every link leads somewhere" in done.stdout
    assert (tmp_path / "html" / "search.html").is_file()
