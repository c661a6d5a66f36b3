// The stages side by side: text is put into a pane when its stage is chosen, and coloured when seen.

class Pane {
  constructor(element) {
    this.select = element.querySelector("select");
    this.input = element.querySelector("input");
    this.status = element.querySelector(".found");
    this.box = element.querySelector(".text");
    this.parts = [];
    this.texts = [];
    this.at = -1;
    this.seen = new IntersectionObserver((entries) => {
      for (const entry of entries) if (entry.isIntersecting) this.paint(entry.target);
    }, { root: this.box, rootMargin: "400px" });
    this.select.addEventListener("change", () => this.show());
    this.input.addEventListener("input", () => { this.at = -1; this.find(); });
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.find(event.shiftKey ? -1 : 1);
    });
    listeners.push((from) => { if (!this.box.contains(from)) this.reveal(); });
  }

  async show() {
    const stage = this.select.value;
    const parts = await unpack(`stage-${stage}`);
    if (stage !== this.select.value) return;
    this.seen.disconnect();
    this.texts = parts.map(([text]) => text);
    this.parts = parts.map(([text, calls, place]) => {
      const part = document.createElement("div");
      part.className = "part";
      if (calls) part.dataset.c = calls;
      if (place) part.title = place;
      part.textContent = text.endsWith("\n") ? text.slice(0, -1) : text;
      return part;
    });
    this.box.replaceChildren(...this.parts);
    this.box.dataset.stage = stage;
    for (const part of this.parts) this.seen.observe(part);
    light(this.box);
    this.reveal();
    this.at = -1;
    if (this.input.value) this.find();
  }

  paint(part) {
    this.seen.unobserve(part);
    if (part.dataset.painted) return;
    part.dataset.painted = "yes";
    paint(part, part.textContent, this.select.value);
  }

  reveal() {
    const first = this.parts.find((part) => part.classList.contains("lit"));
    if (first) this.box.scrollTop = first.offsetTop - this.box.offsetTop - 20;
  }

  // Go to the next place of what is looked for, as `by` says, and tell how many there are.
  find(by = 1) {
    const wanted = this.input.value;
    CSS.highlights?.delete("found");
    if (!wanted) { this.status.textContent = ""; return; }
    const places = [];
    this.texts.forEach((text, part) => {
      for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + 1)) places.push([part, at]);
    });
    if (!places.length) { this.status.textContent = "not found"; return; }
    this.at = (this.at + by + places.length) % places.length;
    this.status.textContent = `${this.at + 1} of ${places.length}`;
    const [part, offset] = places[this.at];
    this.paint(this.parts[part]);
    this.parts[part].scrollIntoView({ block: "nearest" });
    const range = rangeIn(this.parts[part], offset, wanted.length);
    if (!range) return;
    CSS.highlights?.set("found", new Highlight(range));
    const own = this.box.getBoundingClientRect(), place = range.getBoundingClientRect();
    this.box.scrollTop += place.top - own.top - own.height / 3;
    if (place.left > own.right - 40 || place.left < own.left) this.box.scrollLeft += place.left - own.left - 60;
  }
}

// The range of some letters of an element's text.
function rangeIn(element, offset, length) {
  const range = document.createRange();
  const nodes = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let passed = 0, isOpen = false;
  while (nodes.nextNode()) {
    const node = nodes.currentNode, end = passed + node.length;
    if (!isOpen && offset < end) { range.setStart(node, offset - passed); isOpen = true; }
    if (isOpen && offset + length <= end) { range.setEnd(node, offset + length - passed); return range; }
    passed = end;
  }
  return null;
}

const panes = [...document.querySelectorAll(".pane")].map((element) => new Pane(element));
const isWide = matchMedia("(min-width: 721px)");
const stagesSeen = new IntersectionObserver((entries) => {
  if (!entries.some((entry) => entry.isIntersecting)) return;
  stagesSeen.disconnect();
  for (const pane of isWide.matches ? panes : panes.slice(0, 1)) pane.show();
}, { rootMargin: "300px" });
stagesSeen.observe(document.getElementById("panes"));
isWide.addEventListener("change", () => {
  for (const pane of panes) if (!pane.parts.length) pane.show();
});

// The border between two panes: dragged, or moved with the arrow keys.
for (const border of document.querySelectorAll(".split")) {
  const left = border.previousElementSibling, right = border.nextElementSibling;
  const move = (by) => {
    const widths = [left, right].map((pane) => pane.getBoundingClientRect().width);
    const all = widths[0] + widths[1];
    const share = Math.min(0.9, Math.max(0.1, (widths[0] + by) / all));
    const grow = Number(getComputedStyle(left).flexGrow) + Number(getComputedStyle(right).flexGrow);
    left.style.flexGrow = share * grow;
    right.style.flexGrow = (1 - share) * grow;
    border.setAttribute("aria-valuenow", Math.round(100 * share));
  };
  border.addEventListener("pointerdown", (event) => {
    border.setPointerCapture(event.pointerId);
    let last = event.clientX;
    border.onpointermove = (moved) => { move(moved.clientX - last); last = moved.clientX; };
    border.onpointerup = () => { border.onpointermove = null; };
  });
  border.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft") move(-24);
    if (event.key === "ArrowRight") move(24);
  });
}

// A link to calls, "#c=0-3,7", or to kernels, "#k1,k2", opens with them chosen.
async function openLink() {
  const given = decodeURIComponent(location.hash.slice(1));
  if (given.startsWith("c=")) return choose(numbersOf(given.slice(2).replaceAll(",", " ")), null);
  const names = new Set(given.split(","));
  const kernels = [...document.querySelectorAll("[data-kernel]")].filter((k) => names.has(k.dataset.kernel));
  if (kernels.length) await choose(kernels.flatMap(elementCalls), null);
}
openLink();
