// What is shared: packed texts, numbers of calls, and what is chosen.

const packedTexts = new Map();
const MOST_TOLD = 6; // kernels that the bar of what is chosen names

// Texts are inflated when they are first asked for.
function unpack(name) {
  if (!packedTexts.has(name)) packedTexts.set(name, inflate(name));
  return packedTexts.get(name);
}

async function inflate(name) {
  const letters = document.querySelector(`script[data-packed="${name}"]`).textContent.trim();
  const bytes = Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

// "0-3 7" as numbers.
function numbersOf(text) {
  const numbers = [];
  for (const span of text ? text.split(" ") : []) {
    const [first, last] = span.split("-").map(Number);
    for (let call = first; call <= (last ?? first); call++) numbers.push(call);
  }
  return numbers;
}

let chosen = new Set();
const listeners = [];
const callsOf = new WeakMap();

function elementCalls(element) {
  if (!callsOf.has(element)) callsOf.set(element, numbersOf(element.dataset.c));
  return callsOf.get(element);
}

const isChosen = (calls) => calls.some((call) => chosen.has(call));

function light(root) {
  for (const element of root.querySelectorAll("[data-c]")) {
    element.classList.toggle("lit", isChosen(elementCalls(element)));
  }
}

async function choose(calls, from) {
  chosen = new Set(calls);
  light(document);
  for (const listener of listeners) listener(from);
  const bar = document.getElementById("chosen");
  bar.hidden = !chosen.size;
  const told = await unpack("told");
  const kernels = new Map();
  for (const call of chosen) {
    const [name, label, time, lines] = told[call];
    if (!kernels.has(name)) kernels.set(name, []);
    kernels.get(name).push([call, label, time, lines]);
  }
  const texts = [...kernels].map(([name, found]) => {
    const [, label, , lines] = found[0];
    const each = found.map(([call, , time]) => time ? `call ${call}: ${time}` : `call ${call}`);
    return `${name} ${label} (${each.join("; ")}) ${lines}`;
  });
  const more = texts.length > MOST_TOLD ? ` and ${texts.length - MOST_TOLD} more kernels` : "";
  bar.querySelector("span").textContent = texts.slice(0, MOST_TOLD).join(" \u00b7 ") + more;
}

function onChoice(element) {
  const calls = elementCalls(element);
  const isSame = calls.length === chosen.size && calls.every((call) => chosen.has(call));
  history.replaceState(null, "", isSame ? location.pathname : `#c=${element.dataset.c.replaceAll(" ", ",")}`);
  choose(isSame ? [] : calls, element);
}

document.addEventListener("click", (event) => {
  const element = event.target.closest("[data-c]");
  if (!element || event.target.closest(".name")) return;
  // A kernel opens with a click on its line, and is marked with its button.
  if (element.matches("details") && !event.target.closest(".mark")) return;
  onChoice(element);
});
document.querySelector("#chosen button").addEventListener("click", () => {
  history.replaceState(null, "", location.pathname);
  choose([], null);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && chosen.size) choose([], null);
});

// Syntax: one expression with a group for each kind, by language.
const KINDS = ["c", "s", "w", "t", "d", "v"];
const GRAPH = /(\/\/.*)|("[^"\n]*")|\b(graph|partition|group|program|kernel|routine|for|if|else|in|out|inout|launch|switch|while|scan|call|return|update|fold|parallel|vector|lanes|tile|state|given|result|temporary|constant)\b|\b((?:[fiu]\d+|bf16|bool|c\d+)(?:\[[^\]]*\])?)|\b(\d[\d.e+-]*)\b|([%@][\w./]+)/g;
const LLVM = /(;.*)|("[^"\n]*")|\b(define|declare|internal|private|global|constant|call|tail|ret|br|label|phi|load|store|getelementptr|inbounds|icmp|fcmp|select|add|sub|mul|fadd|fsub|fmul|fdiv|fneg|shl|lshr|ashr|and|or|xor|bitcast|zext|sext|trunc|fptosi|sitofp|fpext|fptrunc|switch|alloca|extractelement|insertelement|shufflevector|extractvalue|insertvalue|unreachable|align|nuw|nsw|fast|contract)\b|(<\d+ x \w+>|\b(?:i\d+|float|double|half|bfloat|ptr|void)\b)|(?<![\w%@!])(-?\d[\d.ex]*|0x[\da-fA-F]+)\b|([%@][\w.$"-]+)/g;
const ASM = /(#.*|\/\/.*)|("[^"\n]*")|^\t(\.?[\w.]+)|^([\w.$]+:)|(\$?-?\b0x[\da-f]+\b|\$-?\d+)|(%\w+)/gm;
const PYTHON = /(#.*)|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|\b(def|return|for|in|if|elif|else|while|with|as|import|from|class|lambda|not|and|or|is|None|True|False|yield|raise|try|except|finally|pass|assert|async|await)\b|()(?!)|\b(\d[\d._e]*)\b|\b(sg|np|self)\b/g;
const LANGUAGES = { graph: GRAPH, optimized: GRAPH, loops: GRAPH, llvm: LLVM, "llvm-opt": LLVM, asm: ASM, python: PYTHON };

// Put text with coloured words into an element.
function paint(element, text, language) {
  const pieces = document.createDocumentFragment();
  let last = 0;
  for (const found of text.matchAll(LANGUAGES[language])) {
    const kind = KINDS.find((_, group) => found[group + 1] !== undefined);
    pieces.append(text.slice(last, found.index));
    const span = document.createElement("span");
    span.className = kind;
    span.textContent = found[0];
    pieces.append(span);
    last = found.index + found[0].length;
  }
  pieces.append(text.slice(last));
  element.replaceChildren(pieces);
}
for (const code of document.querySelectorAll("code.python")) paint(code, code.textContent, "python");
