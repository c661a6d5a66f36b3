// What is wider than its place scrolls by itself, and so it takes the focus, for those who scroll
// with the keyboard; what fits does not.
"use strict";

function focusWhatScrolls() {
  for (const box of document.querySelectorAll("article pre, article .table-wrapper")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

addEventListener("load", () => new ResizeObserver(focusWhatScrolls).observe(document.body));
