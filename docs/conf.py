"""Settings of Sphinx: how the site is made of the pages; `tools/build_docs.py` runs it."""

from importlib.metadata import version as _version

project = "symgrad"
author = "The symgrad maintainers"
copyright = author
release = _version("symgrad")
version = release

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["conf.py"]

# A link to a heading is checked as any other; headings of docstrings have names of their own.
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
myst_links_external_new_tab = False
suppress_warnings: list[str] = []
nitpicky = True
# A file of `reading.md` shows text of stages, which is no language that Pygments knows.
highlight_language = "text"
# Both have the contrast that WCAG asks for.
pygments_style = "a11y-light"
pygments_dark_style = "a11y-dark"

html_theme = "furo"
html_title = f"symgrad {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "navigation_with_keys": True,
    "top_of_page_buttons": [],
}
