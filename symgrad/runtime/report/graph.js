// The drawing of the graph: boxes of scopes, lines and ops, of which any can be opened and closed.

const DRAWING = document.getElementById("drawing");
const SVG = "http://www.w3.org/2000/svg";
const [LETTER, SMALL, OP_HEIGHT, MARGIN, TOP, GAP_X, GAP_Y] = [7.6, 5.9, 36, 14, 30, 12, 24];
const START_BOXES = 60; // so many are open at first
const view = { x: 0, y: 0, scale: 1 };
let graph = null, size = [0, 0], hits = [], hit = -1;

const short = (text, most = 36) => (text.length > most ? text.slice(0, most - 1) + "\u2026" : text);

function prepare(box, parent) {
  box.parent = parent;
  box.isOpen = false;
  for (const child of box.b || []) prepare(child, box);
}

function openUpTo(most) {
  for (let level = [graph]; level.length;) {
    const next = level.flatMap((box) => box.b || []);
    if (most < next.length && level[0] !== graph) break;
    most -= next.length;
    for (const box of level) if (box.b) box.isOpen = true;
    level = next;
  }
}

// The layers are those of symgrad/display/layers.py, which explains them.
function placeInLayers(boxes, edges) {
  const behind = boxes.map(() => []), near = boxes.map(() => []), into = boxes.map(() => 0);
  for (const [a, b] of edges) if (a !== b) { behind[a].push(b); into[b]++; }
  const order = [], left = new Set(boxes.keys());
  const ready = [...left].filter((box) => !into[box]).reverse();
  while (left.size) {
    const box = ready.length ? ready.pop() : left.values().next().value;
    if (!left.delete(box)) continue;
    order.push(box);
    const freed = behind[box].filter((other) => --into[other] === 0 && left.has(other));
    ready.push(...freed.sort((a, b) => b - a));
  }
  const position = [], ranks = boxes.map(() => 0);
  order.forEach((box, at) => { position[box] = at; });
  for (const box of order) {
    for (const other of behind[box]) {
      if (position[other] < position[box]) continue;
      ranks[other] = Math.max(ranks[other], ranks[box] + 1);
      near[box].push(other);
      near[other].push(box);
    }
  }
  const rows = brokenRows(boxes, ranks);
  const middle = boxes.map(() => 0);
  for (const row of rows) putBeside(row, boxes, middle, null);
  for (let sweep = 0; sweep < 4; sweep++) {
    for (const row of sweep % 2 ? [...rows].reverse() : rows) {
      const wanted = new Map(row.map((box) => [box, mean(near[box].map((other) => middle[other]), middle[box])]));
      row.sort((a, b) => wanted.get(a) - wanted.get(b));
      putBeside(row, boxes, middle, wanted);
    }
  }
  return setCorners(rows, boxes, middle);
}

function brokenRows(boxes, ranks) {
  const rows = [];
  ranks.forEach((rank, box) => { (rows[rank] ||= []).push(box); });
  const area = boxes.reduce((sum, box) => sum + (box.w + GAP_X) * (box.h + GAP_X), 0);
  const room = Math.max(Math.sqrt(area) * 1.6, ...boxes.map((box) => box.w));
  return rows.flatMap((row) => {
    const parts = [[]];
    let width = 0;
    for (const box of row) {
      if (width && width + boxes[box].w > room) { parts.push([]); width = 0; }
      parts.at(-1).push(box);
      width += boxes[box].w + GAP_X;
    }
    return parts;
  });
}

const mean = (values, other) => (values.length ? values.reduce((a, b) => a + b, 0) / values.length : other);

function putBeside(row, boxes, middle, wanted) {
  let edge = -Infinity;
  for (const box of row) {
    const half = boxes[box].w / 2;
    middle[box] = Math.max(wanted ? wanted.get(box) : 0, edge + half);
    edge = middle[box] + half + GAP_X;
  }
  const error = mean(row.map((box) => middle[box] - (wanted ? wanted.get(box) : 0)), 0);
  for (const box of row) middle[box] -= error;
}

function setCorners(rows, boxes, middle) {
  const start = Math.min(0, ...boxes.map((box, i) => middle[i] - box.w / 2));
  let top = 0;
  for (const row of rows) {
    const height = Math.max(...row.map((box) => boxes[box].h));
    for (const i of row) {
      boxes[i].x = middle[i] - boxes[i].w / 2 - start;
      boxes[i].y = top + (height - boxes[i].h) / 2;
    }
    top += height + GAP_Y;
  }
  return [Math.max(0, ...boxes.map((box) => box.x + box.w)), Math.max(top - GAP_Y, 0)];
}

function measure(box) {
  if (!box.isOpen || !box.b) {
    const small = box.k === "g" ? countText(box) : box.t;
    box.w = Math.max(LETTER * short(box.n).length, SMALL * short(small).length) + 14;
    box.h = OP_HEIGHT;
    return;
  }
  box.b.forEach(measure);
  const edges = [];
  for (let i = 0; i < box.e.length; i += 2) edges.push([box.e[i], box.e[i + 1]]);
  box.edges = edges;
  box.inner = placeInLayers(box.b, edges);
  box.w = Math.max(box.inner[0], LETTER * short(box.n).length) + 2 * MARGIN;
  box.h = box.inner[1] + MARGIN + TOP;
}

function countText(box) {
  const count = (part) => (part.b ? part.b.reduce((sum, child) => sum + count(child), 0) : 1);
  const found = count(box);
  return found === 1 ? "1 op" : `${found} ops`;
}

function make(name, attributes, parent) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent.append(element);
  return element;
}

function drawBox(box, parent) {
  const kind = box.k === "g" ? "group" : box.k === "l" ? "leaf" : "op";
  const group = make("g", { class: `${kind}${box.g ? " made" : ""}`, transform: `translate(${box.x.toFixed(1)} ${box.y.toFixed(1)})` }, parent);
  if (box.c) group.dataset.c = box.c;
  box.element = group;
  const told = box.k === "g" ? box.n : `${box.o}: ${box.t}${box.s ? ` at ${box.s}` : ""}`;
  make("title", {}, group).textContent = told;
  make("rect", { width: box.w.toFixed(1), height: box.h.toFixed(1), rx: box.k === "g" ? 8 : 5 }, group);
  make("text", { x: 7, y: 16 }, group).textContent = short(box.n);
  if (box.k === "g") {
    const name = make("rect", { class: "name", width: box.w.toFixed(1), height: box.isOpen ? TOP - 4 : OP_HEIGHT }, group);
    name.addEventListener("click", () => { if (!dragged) toggle(box); });
  }
  if (box.isOpen && box.b) drawInside(box, make("g", { transform: `translate(${((box.w - box.inner[0]) / 2).toFixed(1)} ${TOP})` }, group));
  else make("text", { x: 7, y: 29, class: "small" }, group).textContent = short(box.k === "g" ? countText(box) : box.t, 44);
}

function drawInside(box, parent) {
  for (const isUp of [false, true]) {
    const lines = box.edges.map(([a, b]) => [box.b[a], box.b[b]])
      .filter(([a, b]) => (b.y <= a.y) === isUp)
      .map(([a, b]) => line(...(isUp ? [b, a] : [a, b])));
    if (lines.length) make("path", { d: lines.join(""), class: isUp ? "up" : "" }, parent);
  }
  for (const child of box.b) drawBox(child, parent);
}

function line(upper, lower) {
  const x = upper.x + upper.w / 2, y = upper.y + upper.h, toX = lower.x + lower.w / 2;
  const bend = Math.max((lower.y - y) / 2, 4);
  return `M${x.toFixed()} ${y.toFixed()}C${x.toFixed()} ${(y + bend).toFixed()} ${toX.toFixed()} ${(lower.y - bend).toFixed()} ${toX.toFixed()} ${lower.y.toFixed()}`;
}

function draw() {
  graph.isOpen = true;
  measure(graph);
  size = [graph.inner[0], graph.inner[1]];
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", "the ops of the graph in boxes of their name scopes");
  drawInside(graph, make("g", {}, svg));
  DRAWING.replaceChildren(svg);
  light(DRAWING);
}

function look() {
  const world = DRAWING.querySelector("svg > g");
  world?.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
}

function fit() {
  const { clientWidth: w, clientHeight: h } = DRAWING;
  // Not so small that nothing can be read: what is long is then looked at from its top.
  const whole = Math.min((w - 24) / size[0], (h - 24) / size[1], 1.4);
  view.scale = Math.max(whole, Math.min(0.8, (w - 24) / size[0]));
  view.x = (w - size[0] * view.scale) / 2;
  view.y = Math.max(12, (h - size[1] * view.scale) / 2);
  look();
}

function zoom(by, x = DRAWING.clientWidth / 2, y = DRAWING.clientHeight / 2) {
  const scale = Math.min(6, Math.max(0.02, view.scale * by));
  view.x = x - ((x - view.x) * scale) / view.scale;
  view.y = y - ((y - view.y) * scale) / view.scale;
  view.scale = scale;
  look();
}

// A box keeps its place on the page when it is opened or closed.
function toggle(box) {
  const before = box.element.getBoundingClientRect();
  box.isOpen = !box.isOpen;
  draw();
  look();
  const after = box.element.getBoundingClientRect();
  view.x += before.left - after.left;
  view.y += before.top - after.top;
  look();
}

function setAll(isOpen) {
  const pending = [graph];
  while (pending.length) {
    const box = pending.pop();
    box.isOpen = isOpen;
    pending.push(...(box.b || []));
  }
  if (!isOpen) graph.isOpen = true;
  draw();
  fit();
}

function goTo(box) {
  for (let around = box.parent; around; around = around.parent) around.isOpen = true;
  draw();
  view.scale = Math.max(view.scale, 0.8);
  look();
  const place = box.element.getBoundingClientRect(), own = DRAWING.getBoundingClientRect();
  view.x += own.left + own.width / 2 - (place.left + place.width / 2);
  view.y += own.top + own.height / 2 - (place.top + place.height / 2);
  look();
  box.element.classList.add("hit");
}

function findOps(wanted) {
  hits = [];
  hit = -1;
  const pending = wanted ? [graph] : [];
  while (pending.length) {
    const box = pending.pop();
    if (box !== graph && [box.n, box.o, box.t, box.s].some((text) => text?.toLowerCase().includes(wanted))) hits.push(box);
    pending.push(...[...(box.b || [])].reverse());
  }
  const status = document.getElementById("found-ops");
  status.textContent = wanted ? (hits.length ? `${hits.length} found: Enter goes to the next` : "not found") : "";
  if (hits.length) nextHit(1);
}

function nextHit(by) {
  if (!hits.length) return;
  hit = (hit + by + hits.length) % hits.length;
  goTo(hits[hit]);
  document.getElementById("found-ops").textContent = `${hit + 1} of ${hits.length}`;
}

let dragged = false;
const fingers = new Map();
DRAWING.addEventListener("pointerdown", (event) => {
  dragged = false;
  fingers.set(event.pointerId, [event.clientX, event.clientY]);
});
DRAWING.addEventListener("pointermove", (event) => {
  const before = fingers.get(event.pointerId);
  if (!before) return;
  const now = [event.clientX, event.clientY];
  const others = [...fingers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
  if (others.length) {
    const apart = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]) || 1;
    const own = DRAWING.getBoundingClientRect();
    zoom(apart(now, others[0]) / apart(before, others[0]), others[0][0] - own.left, others[0][1] - own.top);
  } else {
    if (Math.hypot(now[0] - before[0], now[1] - before[1]) < 3 && !dragged) return;
    if (!dragged) DRAWING.setPointerCapture(event.pointerId);
    view.x += now[0] - before[0];
    view.y += now[1] - before[1];
    look();
  }
  dragged = true;
  fingers.set(event.pointerId, now);
});
for (const end of ["pointerup", "pointercancel", "pointerleave"]) {
  DRAWING.addEventListener(end, (event) => fingers.delete(event.pointerId));
}
DRAWING.addEventListener("click", (event) => { if (dragged) event.stopPropagation(); }, true);
// The wheel scrolls the page, unless a key says that it zooms.
DRAWING.addEventListener("wheel", (event) => {
  if (!event.ctrlKey && !event.metaKey) return;
  event.preventDefault();
  const own = DRAWING.getBoundingClientRect();
  zoom(Math.exp(-event.deltaY / 300), event.clientX - own.left, event.clientY - own.top);
}, { passive: false });
DRAWING.addEventListener("keydown", (event) => {
  const moves = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
  if (event.key === "+") zoom(1.4);
  else if (event.key === "-") zoom(1 / 1.4);
  else if (moves[event.key]) {
    event.preventDefault();
    view.x += moves[event.key][0];
    view.y += moves[event.key][1];
    look();
  }
});
for (const button of document.querySelectorAll("[data-zoom]")) {
  button.addEventListener("click", () => (Number(button.dataset.zoom) ? zoom(Number(button.dataset.zoom)) : fit()));
}
document.getElementById("open-all").addEventListener("click", () => setAll(true));
document.getElementById("close-all").addEventListener("click", () => setAll(false));
const finder = document.getElementById("find-op");
finder.addEventListener("input", () => { if (graph) findOps(finder.value.toLowerCase()); });
finder.addEventListener("keydown", (event) => {
  if (event.key === "Enter") nextHit(event.shiftKey ? -1 : 1);
});

const drawingSeen = new IntersectionObserver(async (entries) => {
  if (!entries.some((entry) => entry.isIntersecting)) return;
  drawingSeen.disconnect();
  graph = await unpack("graph");
  prepare(graph, null);
  openUpTo(START_BOXES);
  draw();
  fit();
}, { rootMargin: "300px" });
drawingSeen.observe(DRAWING);
