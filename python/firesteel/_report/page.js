// Makes the report move: graphs that zoom and fold, links between lines, calls, operators and kernels, search, keys.
"use strict";

const facts = JSON.parse(document.getElementById("facts").textContent);
const $ = (id) => document.getElementById(id);
const pieces = facts.pieces.filter((piece) => piece.runs || piece.nodes.length);
const NAME = 0, OP = 1, ARGS = 2, TYPE = 3, READS = 4, PLACE = 5, MODULE = 6, OPAQUE = 7, CALL = 6;
const KERNEL = { TEXT: 0, NODES: 1, MADE: 2, DISK: 3, BEGAN: 4, SECONDS: 5 };

function element(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "rect", "text", "path", "title", "defs", "marker"].includes(tag);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}
const milliseconds = (seconds) => (seconds >= 1 ? `${seconds.toFixed(2)} s` : `${(seconds * 1e3).toFixed(1)} ms`);
const opName = (row) => facts.ops[row[OP]];
const shortOp = (row) => opName(row).replace(/^(torch\.nn\.functional|torch\.Tensor|torch|operator|aten)\./, "");
const shortTime = (seconds) => { for (const [unit, size] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]]) if (seconds >= size) return `${(seconds / size).toPrecision(3)} ${unit}`; return `${Math.round(seconds * 1e9)} ns`; };
const shortBytes = (count) => { for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) if (count >= size) return `${(count / size).toPrecision(3)} ${unit}`; return `${Math.round(count)} B`; };
// What was measured of a kernel, or of an operator that runs by itself.
const costs = new Map(facts.costs.map((it) => [`${it.piece} ${it.phase} ${it.kernel === null ? `n${it.node}` : `k${it.kernel}`}`, it]));
function costText(piece, view, kernel, node) {
  const it = view.level === "aten" && costs.get(`${piece.n} ${piece.parts[view.part].phase} ${kernel >= 0 ? `k${kernel}` : `n${node}`}`);
  return it ? `${shortTime(it.seconds / it.runs)} a run (${it.runs} run${it.runs > 1 ? "s" : ""}); reads ${shortBytes(it.read / it.runs)}, makes ${shortBytes(it.made / it.runs)}` : "";
}
const placeText = (place) => `${facts.files[place[0]].name}:${place[1]}`;

// ---- what is shown of one piece: the torch-level graph, or a part of the ATen graph

function views(piece) {
  const all = [{ label: "torch calls", level: "torch", rows: piece.nodes, outputs: piece.outputs, kernels: [] }];
  piece.parts.forEach((part, number) => {
    const runs = { native: "in kernels", waiting: "kernels are being compiled", aten: "by ATen" }[part.tier];
    all.push({ label: `ATen ${part.phase}, ${runs}`, level: "aten", part: number, rows: part.nodes, outputs: part.outputs, kernels: part.kernels });
  });
  return all;
}
function moduleOf(piece, view, index) {
  const row = view.rows[index];
  const call = view.level === "torch" ? row : piece.nodes[row[CALL]];
  return call ? facts.modules[call[MODULE]] : "";
}
function kernelOf(view, index) {
  return view.kernels.findIndex((kernel) => kernel[KERNEL.NODES].includes(index));
}

const state = { piece: 0, view: 0, fold: "module", open: new Set(), chosen: null };
let boxes = [], drawn = null, camera = { x: 0, y: 0, k: 1 };

// The box each node stands in: itself, or the outermost folded group around it.
function boxOf(piece, view, index) {
  if (state.fold === "kernel") {
    const kernel = kernelOf(view, index);
    const key = `k:${kernel}`;
    return kernel < 0 || state.open.has(key) ? `n:${index}` : key;
  }
  if (state.fold === "module") {
    const names = moduleOf(piece, view, index).split(".").filter(Boolean);
    for (let depth = 1; depth <= names.length; ++depth) {
      const key = `m:${names.slice(0, depth).join(".")}`;
      if (!state.open.has(key)) return key;
    }
  }
  return `n:${index}`;
}

// Modules are opened from the outside in as long as the picture stays small.
function openSome(piece, view) {
  state.open = new Set();
  if (state.fold !== "module") return;
  for (let depth = 1; depth < 8; ++depth) {
    const before = new Set(state.open);
    view.rows.forEach((_, index) => {
      const names = moduleOf(piece, view, index).split(".").filter(Boolean);
      if (names.length >= depth) state.open.add(`m:${names.slice(0, depth).join(".")}`);
    });
    if (new Set(view.rows.map((_, index) => boxOf(piece, view, index))).size > 70) { state.open = before; return; }
  }
}

function drawGraph(keepCamera) {
  const piece = pieces[state.piece], view = views(piece)[state.view];
  const members = new Map();
  view.rows.forEach((_, index) => {
    const key = boxOf(piece, view, index);
    if (!members.has(key)) members.set(key, []);
    members.get(key).push(index);
  });
  boxes = [...members].map(([key, nodes]) => describeBox(piece, view, key, nodes));
  const home = new Map();
  boxes.forEach((box) => box.nodes.forEach((node) => home.set(node, box.key)));
  const seen = new Set(), edges = [];
  view.rows.forEach((row, index) => row[READS].forEach((from) => {
    const pair = `${home.get(from)}>${home.get(index)}`;
    if (home.get(from) === home.get(index) || seen.has(pair)) return;
    seen.add(pair);
    edges.push([home.get(from), home.get(index)]);
  }));
  drawn = Layout.place(boxes, edges);
  drawn.edges = edges;
  const scene = element("g", { id: "scene" });
  drawn.paths.forEach((it) => scene.append(element("path", { class: it.back ? "edge back" : "edge", d: it.d, "marker-end": "url(#tip)" })));
  boxes.forEach((box) => scene.append(boxElement(box)));
  const svg = element("svg", { role: "group", "aria-label": `graph of ${piece.function}` },
    element("defs", {}, element("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
      element("path", { d: "M0 0 L8 4 L0 8 z", fill: "currentColor", opacity: 0.6 }))), scene);
  $("canvas").replaceChildren(svg);
  if (!keepCamera) start();
  moveCamera();
  markChosen();
  drawTable(piece, view);
}

function describeBox(piece, view, key, nodes) {
  const first = view.rows[nodes[0]];
  const kernel = nodes.length ? kernelOf(view, nodes[0]) : -1;
  let title = shortOp(first), sub = facts.types[first[TYPE]];
  const group = !key.startsWith("n:");
  if (key.startsWith("m:")) { title = key.slice(2); sub = `${nodes.length} operation${nodes.length > 1 ? "s" : ""}`; }
  if (key.startsWith("k:")) { title = `kernel ${kernel + 1}`; sub = nodes.map((node) => shortOp(view.rows[node])).join(" "); }
  if (!group && kernel >= 0) sub = `kernel ${kernel + 1} · ${sub}`;
  const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
  title = cut(title, 34); sub = cut(sub, 40);
  return {
    key, nodes, group, kernel, title, sub, order: nodes[0],
    width: Math.max(70, title.length * 7.4 + 22, sub.length * 5.8 + 20),
    opaque: view.level === "torch" && nodes.some((node) => view.rows[node][OPAQUE]),
    end: nodes.some((node) => view.outputs.includes(node)),
  };
}

function boxElement(box) {
  const hue = box.kernel >= 0 && (!box.group || box.key.startsWith("k:")) ? `hsl(${(box.kernel * 67) % 360} 60% 50%)` : null;
  const made = element("g", {
    class: `box${box.group ? " group" : ""}${box.opaque ? " opaque" : ""}${box.end ? " end" : ""}`, tabindex: 0, role: "button",
    "data-key": box.key, "aria-label": `${box.title}, ${box.sub}${box.group ? ", folded: press Enter to unfold" : ""}`,
    transform: `translate(${box.x - box.width / 2} ${box.y})`,
    onclick: () => (box.group ? unfold(box.key) : choose({ kind: "node", piece: state.piece, view: state.view, node: box.nodes[0] })),
    onfocus: () => { if (!box.group && !movesFocus) choose({ kind: "node", piece: state.piece, view: state.view, node: box.nodes[0] }, true); },
  },
  element("rect", { width: box.width, height: Layout.HEIGHT }),
  hue ? element("rect", { width: 5, height: Layout.HEIGHT, style: `fill:${hue};stroke:none` }) : null,
  element("text", { x: box.width / 2, y: 16, "text-anchor": "middle" }, box.title),
  element("text", { x: box.width / 2, y: 30, "text-anchor": "middle", class: "sub" }, box.sub));
  box.element = made;
  return made;
}

function unfold(key) {
  state.open.add(key);
  drawGraph(true);
  const first = boxes.find((box) => key.startsWith("m:") ? box.key.startsWith(key) || box.nodes.some((node) => moduleOf(pieces[state.piece], views(pieces[state.piece])[state.view], node).startsWith(key.slice(2))) : box.kernel === +key.slice(2));
  if (first) show(first);
}
function fold(module) {
  for (const key of [...state.open]) if (key === `m:${module}` || key.startsWith(`m:${module}.`)) state.open.delete(key);
  drawGraph(true);
}
let movesFocus = false; // the page moves it, not the reader
function show(box) {
  const area = $("canvas").getBoundingClientRect();
  camera.x = area.width / 2 - box.x * camera.k;
  camera.y = area.height / 3 - box.y * camera.k;
  moveCamera();
  movesFocus = true;
  box.element.focus({ preventScroll: true });
  movesFocus = false;
}
// The whole graph; or, to start with, the top of it at a size that can be read.
function fit(least = 0.05) {
  const area = $("canvas").getBoundingClientRect();
  const wide = area.width / drawn.width, high = area.height / drawn.height;
  camera.k = Math.min(1.1, Math.max(least, Math.min(wide, high)));
  camera.x = (area.width - drawn.width * camera.k) / 2;
  camera.y = Math.max(8, (area.height - drawn.height * camera.k) / 2);
}
const start = () => fit(0.75);
function moveCamera() {
  const scene = $("scene");
  if (scene) scene.setAttribute("transform", `translate(${camera.x} ${camera.y}) scale(${camera.k})`);
}
function zoom(factor, x, y) {
  const area = $("canvas").getBoundingClientRect();
  const [cx, cy] = [x === undefined ? area.width / 2 : x - area.left, y === undefined ? area.height / 2 : y - area.top];
  const next = Math.min(4, Math.max(0.05, camera.k * factor));
  camera.x = cx - ((cx - camera.x) * next) / camera.k;
  camera.y = cy - ((cy - camera.y) * next) / camera.k;
  camera.k = next;
  moveCamera();
}

function drawTable(piece, view) {
  const table = element("table", {}, element("tr", {}, ...["", "operation", "arguments", "gives", "line", "module"].map((text) => element("th", {}, text))));
  view.rows.forEach((row, index) => {
    const choice = { kind: "node", piece: state.piece, view: state.view, node: index };
    table.append(element("tr", { "data-node": index },
      element("td", {}, `%${row[NAME]}`),
      element("td", {}, element("a", { href: "#graphs", onclick: (event) => { event.preventDefault(); choose(choice); } }, opName(row))),
      element("td", { class: "mono" }, row[ARGS]), element("td", { class: "mono" }, facts.types[row[TYPE]]),
      element("td", {}, row[PLACE] ? lineLink(row[PLACE]) : ""), element("td", {}, moduleOf(piece, view, index))));
  });
  $("node-table").replaceChildren(table);
}

// ---- choosing: what belongs together is shown together

const linkTo = (text, choice) => element("a", { href: "#graphs", onclick: (event) => { event.preventDefault(); choose(choice); } }, text);
const lineLink = (place) => element("a", { class: "place", href: `#L${place[0]}-${place[1]}`, onclick: () => choose({ kind: "line", place }, true) }, placeText(place));

function setView(piece, view) {
  if (state.piece === piece && state.view === view) return;
  Object.assign(state, { piece, view });
  chooseControls();
  openSome(pieces[piece], views(pieces[piece])[view]);
  drawGraph();
}

function choose(choice, quietly) {
  state.chosen = choice;
  if (choice.kind === "node" || choice.kind === "kernel") {
    setView(choice.piece, choice.view);
    const node = choice.kind === "node" ? choice.node : views(pieces[choice.piece])[choice.view].kernels[choice.kernel][KERNEL.NODES][0];
    reveal(node);
    inspect(choice);
    if (!quietly) {
      const box = boxes.find((it) => it.nodes.includes(node));
      if (box) show(box);
      $("graphs").scrollIntoView({ block: "start" });
    }
  }
  markChosen();
  if (choice.kind === "line") inspect(choice);
}
// Unfolds what hides a node.
function reveal(node) {
  const piece = pieces[state.piece], view = views(piece)[state.view];
  let changed = false;
  for (let key = boxOf(piece, view, node); !key.startsWith("n:"); key = boxOf(piece, view, node)) { state.open.add(key); changed = true; }
  if (changed) drawGraph(true);
}

// Everything of one source line: torch-level calls and operators that no call accounts for.
function atLine(place) {
  const found = [];
  pieces.forEach((piece, p) => views(piece).forEach((view, v) => view.rows.forEach((row, node) => {
    if (row[PLACE] && row[PLACE][0] === place[0] && row[PLACE][1] === place[1]) found.push({ kind: "node", piece: p, view: v, node });
  })));
  return found;
}
function linkedTo(choice) {
  const piece = pieces[choice.piece], view = views(piece)[choice.view];
  const call = view.level === "torch" ? choice.node : view.rows[choice.node][CALL];
  if (call === undefined || call < 0) return { call: -1, operators: [] };
  const operators = [];
  views(piece).forEach((other, v) => {
    if (other.level === "aten") other.rows.forEach((row, node) => { if (row[CALL] === call) operators.push({ kind: "node", piece: choice.piece, view: v, node }); });
  });
  return { call, operators };
}

function markChosen() {
  document.querySelectorAll(".line.chosen, tr.chosen, .box.chosen, .box.linked").forEach((it) => it.classList.remove("chosen", "linked"));
  const choice = state.chosen;
  if (!choice) return;
  const here = new Set();
  if (choice.kind === "node") {
    const { call, operators } = linkedTo(choice);
    for (const it of operators) if (it.piece === state.piece && it.view === state.view) here.add(it.node);
    if (state.view === 0 && call >= 0 && choice.piece === state.piece) here.add(call);
    const place = views(pieces[choice.piece])[choice.view].rows[choice.node][PLACE];
    if (place && $(`L${place[0]}-${place[1]}`)) $(`L${place[0]}-${place[1]}`).classList.add("chosen");
  }
  if (choice.kind === "line") {
    for (const it of atLine(choice.place)) if (it.piece === state.piece && it.view === state.view) here.add(it.node);
    if ($(`L${choice.place[0]}-${choice.place[1]}`)) $(`L${choice.place[0]}-${choice.place[1]}`).classList.add("chosen");
  }
  if (choice.kind === "kernel" && choice.piece === state.piece && choice.view === state.view) {
    views(pieces[choice.piece])[choice.view].kernels[choice.kernel][KERNEL.NODES].forEach((node) => here.add(node));
  }
  const exact = choice.kind === "node" && choice.piece === state.piece && choice.view === state.view ? choice.node : -1;
  boxes.forEach((box) => {
    if (box.nodes.some((node) => here.has(node))) box.element.classList.add("linked");
    if (box.nodes.includes(exact)) box.element.classList.add("chosen");
  });
  document.querySelectorAll("#node-table tr[data-node]").forEach((row) => { if (here.has(+row.dataset.node) || +row.dataset.node === exact) row.classList.add("chosen"); });
}

function inspect(choice) {
  const room = $("inspector");
  const parts = { node: inspectNode, kernel: inspectKernel, line: inspectLine }[choice.kind](choice);
  room.replaceChildren(element("button", { onclick: closeInspector, style: "float:right", "aria-label": "close" }, "×"), ...parts);
  room.hidden = false;
  document.querySelector("main").classList.add("with-inspector");
}
function closeInspector() {
  $("inspector").hidden = true;
  document.querySelector("main").classList.remove("with-inspector");
  state.chosen = null;
  markChosen();
}
const listOf = (items) => element("ul", {}, ...items.map((item) => element("li", {}, item)));
const facts2 = (rows) => element("dl", { class: "facts" }, ...rows.filter(([, value]) => value).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));

function inspectNode(choice) {
  const piece = pieces[choice.piece], view = views(piece)[choice.view], row = view.rows[choice.node];
  const { call, operators } = linkedTo(choice);
  const module = moduleOf(piece, view, choice.node);
  const parts = [element("h3", {}, opName(row)), facts2([
    ["result", element("code", {}, `%${row[NAME]}: ${facts.types[row[TYPE]]}`)], ["arguments", element("code", {}, row[ARGS])],
    ["line", row[PLACE] && lineLink(row[PLACE])], ["graph", `piece ${piece.n}, ${view.label}`], [kernelOf(view, choice.node) >= 0 ? "its kernel" : "cost", costText(piece, view, kernelOf(view, choice.node), choice.node)],
    ["module", module && element("span", {}, `${module} `, element("button", { onclick: () => { state.fold = "module"; chooseControls(); fold(module); } }, "fold"))],
  ])];
  if (view.level === "aten" && call >= 0) parts.push(element("h3", {}, "called by"), listOf([linkTo(opName(piece.nodes[call]), { kind: "node", piece: choice.piece, view: 0, node: call })]));
  if (operators.length) parts.push(element("h3", {}, "ATen operators of this call"), listOf(operators.map((it) => {
    const other = views(piece)[it.view];
    return linkTo(`${opName(other.rows[it.node])} (${piece.parts[other.part].phase})`, it);
  })));
  const kernels = new Map();
  [...operators, choice].forEach((it) => {
    const other = views(piece)[it.view], kernel = kernelOf(other, it.node);
    if (kernel >= 0) kernels.set(`${it.view}:${kernel}`, { kind: "kernel", piece: choice.piece, view: it.view, kernel });
  });
  if (kernels.size) parts.push(element("h3", {}, "runs in"), listOf([...kernels.values()].map((it) => linkTo(`kernel ${it.kernel + 1}, ${piece.parts[views(piece)[it.view].part].phase}`, it))));
  const own = kernelOf(view, choice.node);
  if (own >= 0) parts.push(element("pre", {}, facts.kernels[view.kernels[own][KERNEL.TEXT]]));
  else if (view.level === "aten") parts.push(element("p", { class: "quiet" }, "Runs as a call of ATen or of a library."));
  return parts;
}
function inspectKernel(choice) {
  const piece = pieces[choice.piece], view = views(piece)[choice.view], kernel = view.kernels[choice.kernel];
  const places = new Map();
  kernel[KERNEL.NODES].forEach((node) => { const place = view.rows[node][PLACE]; if (place) places.set(place.join(), place); });
  const made = kernel[KERNEL.MADE] === null ? "being compiled when this was written" : !kernel[KERNEL.MADE] ? "could not be compiled: ATen runs its operators"
    : `${kernel[KERNEL.DISK] ? "taken from disk" : "compiled"} in ${milliseconds(kernel[KERNEL.SECONDS])}`;
  return [element("h3", {}, `kernel ${choice.kernel + 1}, ${piece.parts[view.part].phase}`),
    facts2([["graph", `piece ${piece.n} of ${piece.function}`], ["code", made], ["cost", costText(piece, view, choice.kernel, -1)]]),
    element("h3", {}, "lines"), listOf([...places.values()].map(lineLink)),
    element("h3", {}, "operators"), listOf(kernel[KERNEL.NODES].map((node) => linkTo(opName(view.rows[node]), { kind: "node", piece: choice.piece, view: choice.view, node }))),
    element("h3", {}, "loops"), element("pre", {}, facts.kernels[kernel[KERNEL.TEXT]])];
}
function inspectLine(choice) {
  const found = atLine(choice.place);
  const calls = found.filter((it) => it.view === 0), operators = found.filter((it) => it.view > 0);
  const kernels = new Map();
  operators.forEach((it) => {
    const view = views(pieces[it.piece])[it.view], kernel = kernelOf(view, it.node);
    if (kernel >= 0) kernels.set(`${it.piece}:${it.view}:${kernel}`, { kind: "kernel", piece: it.piece, view: it.view, kernel });
  });
  const nameOf = (it) => `${opName(views(pieces[it.piece])[it.view].rows[it.node])} (piece ${pieces[it.piece].n}${it.view ? ", " + pieces[it.piece].parts[it.view - 1].phase : ""})`;
  const some = (title, items, text) => (items.length ? [element("h3", {}, `${title} (${items.length})`), listOf(items.slice(0, 60).map((it) => linkTo(text(it), it)))] : []);
  const parts = [element("h3", {}, placeText(choice.place)),
    ...some("torch calls", calls, nameOf), ...some("ATen operators", operators, nameOf),
    ...some("kernels", [...kernels.values()], (it) => `kernel ${it.kernel + 1} of piece ${pieces[it.piece].n}, ${pieces[it.piece].parts[it.view - 1].phase}`)];
  if (!found.length) parts.push(element("p", { class: "quiet" }, "No operation of a graph comes from this line."));
  return parts;
}
