// The rest of the page: controls of the graph, guards, timeline, search and keys.
"use strict";

// ---- the graph's controls

function chooseControls() {
  $("piece-choice").value = state.piece;
  $("view-choice").replaceChildren(...views(pieces[state.piece]).map((view, number) => element("option", { value: number }, `${view.label} (${view.rows.length})`)));
  $("view-choice").value = state.view;
  $("fold-choice").value = state.fold;
}
function graphRoom() {
  if (!pieces.length) { $("graph-room").append(element("p", { class: "quiet" }, "No graph was captured.")); return; }
  const again = () => { openSome(pieces[state.piece], views(pieces[state.piece])[state.view]); drawGraph(); };
  const bar = element("div", { class: "bar" },
    element("label", {}, "piece ", element("select", { id: "piece-choice", onchange: (event) => { Object.assign(state, { piece: +event.target.value, view: 0 }); chooseControls(); again(); } },
      ...pieces.map((piece, number) => element("option", { value: number }, `${piece.n}: ${piece.function} (${facts.files[piece.file].name}:${piece.line})`)))),
    element("label", {}, "level ", element("select", { id: "view-choice", onchange: (event) => { state.view = +event.target.value; again(); } })),
    element("label", {}, "fold by ", element("select", { id: "fold-choice", onchange: (event) => { state.fold = event.target.value; again(); } },
      ...["module", "kernel", "nothing"].map((name) => element("option", { value: name }, name)))),
    element("button", { onclick: () => zoom(1.3) }, "zoom +"), element("button", { onclick: () => zoom(1 / 1.3) }, "zoom −"),
    element("button", { onclick: () => { fit(); moveCamera(); } }, "fit"), element("button", { onclick: again }, "fold again"));
  $("graph-room").append(bar, element("div", { class: "canvas", id: "canvas" }),
    element("details", { id: "node-list" }, element("summary", {}, "the same as a table"), element("div", { id: "node-table" })));
  chooseControls();
  again();
  const canvas = $("canvas");
  canvas.addEventListener("wheel", (event) => { event.preventDefault(); zoom(event.deltaY < 0 ? 1.12 : 1 / 1.12, event.clientX, event.clientY); }, { passive: false });
  let grip = null;
  canvas.addEventListener("pointerdown", (event) => { grip = { x: event.clientX - camera.x, y: event.clientY - camera.y }; });
  window.addEventListener("pointermove", (event) => { if (grip && event.buttons) { camera.x = event.clientX - grip.x; camera.y = event.clientY - grip.y; moveCamera(); } });
  window.addEventListener("pointerup", () => { grip = null; });
  canvas.addEventListener("keydown", walkGraph);
}
// Arrows go along the edges, and along the row.
function walkGraph(event) {
  const key = event.target.dataset && event.target.dataset.key;
  const box = boxes.find((it) => it.key === key);
  if (!box) return;
  if (event.key === "Enter" || event.key === " ") { event.preventDefault(); box.element.dispatchEvent(new Event("click")); return; }
  const near = (keys) => keys.map((it) => boxes.find((other) => other.key === it)).sort((a, b) => Math.abs(a.x - box.x) - Math.abs(b.x - box.x))[0];
  const row = boxes.filter((it) => it.rank === box.rank).sort((a, b) => a.x - b.x);
  const next = { ArrowUp: () => near(drawn.edges.filter((it) => it[1] === key).map((it) => it[0])), ArrowDown: () => near(drawn.edges.filter((it) => it[0] === key).map((it) => it[1])),
    ArrowLeft: () => row[row.indexOf(box) - 1], ArrowRight: () => row[row.indexOf(box) + 1] }[event.key];
  if (!next) return;
  event.preventDefault();
  const target = next();
  if (!target) return;
  show(target);
  if (!target.group) choose({ kind: "node", piece: state.piece, view: state.view, node: target.nodes[0] }, true);
}

// ---- guards

function guardRoom() {
  const failed = new Map();
  facts.recompiles.forEach((it) => failed.set(it.before, [...(failed.get(it.before) || []), it.guard]));
  facts.pieces.filter((piece) => piece.guards.length).forEach((piece) => {
    const misses = failed.get(piece.n) || [];
    const quoted = misses.flatMap((text) => [...text.matchAll(/`([^`]+)`/g)].map((it) => it[1]));
    const fill = (event) => {
      if (!event.target.open || event.target.querySelector("ul")) return;
      event.target.append(element("ul", { class: "guards mono" }, ...piece.guards.map((guard) =>
        element("li", { class: quoted.some((name) => guard.split(" ")[1] === name) ? "failed" : null }, guard))));
    };
    $("guard-room").append(element("details", { "data-guards": piece.n, ontoggle: fill }, element("summary", {},
      `piece ${piece.n} of ${piece.function} (${facts.files[piece.file].name}:${piece.line}): ${piece.guards.length} guard${piece.guards.length === 1 ? "" : "s"}${misses.length ? `, failed ${misses.length === 1 ? "once" : misses.length + " times"}: ${misses[0]}` : ""}`),
      ...misses.map((text) => element("p", { class: "note recompiled" }, element("b", {}, "failed: "), text))));
  });
  if (!$("guard-room").children.length) $("guard-room").append(element("p", { class: "quiet" }, "There are none."));
}

// ---- timeline

function timeRoom() {
  const bars = [];
  facts.pieces.forEach((piece) => {
    const known = piece.stages.passes + piece.stages.partition + piece.stages.code;
    let at = piece.began;
    const label = `piece ${piece.n} of ${piece.function}`;
    for (const [stage, seconds] of [["capture", Math.max(piece.seconds - known, 0)], ["passes", piece.stages.passes], ["partition", piece.stages.partition], ["code", piece.stages.code], ["backend", piece.backend]]) {
      if (seconds > 0) bars.push({ row: piece.n, label, stage, at, seconds });
      at += seconds;
    }
    piece.parts.forEach((part) => part.kernels.forEach((kernel, number) => {
      if (kernel[KERNEL.MADE]) bars.push({ row: -1, label: "kernels", stage: kernel[KERNEL.DISK] ? "disk" : "kernel", at: kernel[KERNEL.BEGAN], seconds: kernel[KERNEL.SECONDS], what: `kernel ${number + 1} of piece ${piece.n}, ${part.phase}` });
    }));
  });
  if (!bars.length) { $("time-room").append(element("p", { class: "quiet" }, "Nothing was timed.")); return; }
  // Time that nothing was compiled in is left out: programs run for long, and compile for little of it.
  const marks = bars.map((bar) => [bar.at, bar.at + bar.seconds]).sort((a, b) => a[0] - b[0]);
  const stretches = [];
  for (const [from, to] of marks) {
    const last = stretches[stretches.length - 1];
    if (last && from <= last[1] + 1e-4) last[1] = Math.max(last[1], to); else stretches.push([from, to]);
  }
  let total = 0;
  for (const it of stretches) { it.push(total); total += it[1] - it[0]; }
  const axis = (time) => { const it = [...stretches].reverse().find((one) => time >= one[0] - 1e-9) || stretches[0]; return it[2] + time - it[0]; };
  const rows = [...new Map(bars.map((bar) => [bar.row, bar.label]))].sort((a, b) => (a[0] < 0) - (b[0] < 0) || a[0] - b[0]);
  const width = 1180, left = 280, line = 20;
  const scale = (width - left - 90) / (total || 1);
  const svg = element("svg", { viewBox: `0 0 ${width} ${rows.length * line + 30}`, style: "width:100%;min-width:800px", role: "img", "aria-label": "time of each stage" });
  rows.forEach(([row, label], number) => {
    const mine = bars.filter((bar) => bar.row === row), y = number * line + 4;
    svg.append(element("text", { x: 0, y: y + 11 }, label.length > 44 ? label.slice(0, 43) + "…" : label));
    mine.forEach((bar) => svg.append(element("rect", { class: `stage-${bar.stage}`, x: left + axis(bar.at) * scale, y, width: Math.max(bar.seconds * scale, 0.6), height: line - 6 },
      element("title", {}, `${bar.what || bar.label}: ${bar.stage} ${milliseconds(bar.seconds)}`))));
    svg.append(element("text", { x: left + Math.max(...mine.map((bar) => axis(bar.at) + bar.seconds)) * scale + 5, y: y + 11 }, milliseconds(mine.reduce((sum, bar) => sum + bar.seconds, 0))));
  });
  const legend = [["capture", "capture: bytecode and trace"], ["passes", "passes"], ["partition", "partition"], ["code", "code: layout, and kernels where the call waits"], ["backend", "a backend of yours"], ["kernel", "kernel compiled"], ["disk", "kernel taken from disk"]];
  const used = new Set(bars.map((bar) => bar.stage));
  $("time-room").append(element("ul", { class: "legend" }, ...legend.filter(([name]) => used.has(name)).map(([name, words]) => element("li", {}, element("svg", { width: 14, height: 12, "aria-hidden": "true" }, element("rect", { width: 12, height: 12, class: `stage-${name}` })), " ", words))),
    element("div", { class: "time" }, svg),
    element("p", { class: "quiet" }, `${milliseconds(total)} in all; pauses in which nothing was compiled are left out.`));
}

// ---- search: everything that has a name, in one list of lower-case texts

const index = [];
function fillIndex() {
  document.querySelectorAll(".card").forEach((card) => index.push({ kind: "problem", text: card.querySelector("h3").textContent + " " + card.querySelector("dl").textContent, go: () => { card.scrollIntoView({ block: "center" }); card.focus(); } }));
  document.querySelectorAll(".line").forEach((line) => { if (line.textContent.trim()) index.push({ kind: "source", text: line.querySelector("code").textContent.trim() + "  " + lineName(line), go: () => goToLine(line) }); });
  pieces.forEach((piece, p) => {
    index.push({ kind: "piece", text: `${piece.function} piece ${piece.n}`, go: () => { Object.assign(state, { piece: p, view: 0 }); chooseControls(); openSome(piece, views(piece)[0]); drawGraph(); $("graphs").scrollIntoView(); } });
    views(piece).forEach((view, v) => {
      view.rows.forEach((row, node) => index.push({ kind: v ? "ATen" : "call", text: `${opName(row)} %${row[NAME]} ${moduleOf(piece, view, node)} ${row[PLACE] ? placeText(row[PLACE]) : ""} piece ${piece.n}`, go: () => choose({ kind: "node", piece: p, view: v, node }) }));
      view.kernels.forEach((kernel, number) => index.push({ kind: "kernel", text: `kernel ${number + 1} ${piece.parts[view.part].phase} piece ${piece.n}: ${kernel[KERNEL.NODES].map((node) => shortOp(view.rows[node])).join(" ")}`, go: () => choose({ kind: "kernel", piece: p, view: v, kernel: number }) }));
    });
  });
  facts.pieces.forEach((piece) => piece.guards.forEach((guard) => index.push({ kind: "guard", text: `${guard} piece ${piece.n}`, go: () => openGuard(piece.n, guard) })));
  index.forEach((it) => { it.low = it.text.toLowerCase(); });
}
const lineName = (line) => { const [file, number] = line.id.slice(1).split("-"); return placeText([+file, +number]); };
function goToLine(line) {
  location.hash = line.id;
  choose({ kind: "line", place: line.id.slice(1).split("-").map(Number) }, true);
}
function openGuard(number, guard) {
  const details = document.querySelector(`details[data-guards="${number}"]`);
  details.open = true;
  setTimeout(() => { const found = [...details.querySelectorAll("li")].find((it) => it.textContent === guard); if (found) { found.scrollIntoView({ block: "center" }); found.classList.add("failed"); } }, 50);
}
function search(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  return index.filter((it) => words.every((word) => it.low.includes(word)));
}
function showResults(text) {
  const found = search(text), room = $("results");
  room.hidden = !text.trim();
  const close = () => { room.hidden = true; };
  room.replaceChildren(element("p", { class: "quiet", id: "result-count" }, `${found.length} found`), ...found.slice(0, 60).map((it) =>
    element("button", { role: "option", onclick: () => { close(); it.go(); } }, element("span", { class: "tag" }, it.kind), it.text.length > 160 ? it.text.slice(0, 159) + "…" : it.text)));
}

// ---- keys

const KEYS = [["/", "search; ↓ to the results"], ["j k", "next and previous problem"], ["g", "the graph; arrows walk along it, Enter unfolds"], ["+ − 0", "zoom in, out, fit"], ["l", "next level: torch calls, ATen forward, backward"], ["n p", "next and previous piece"], ["?", "this list"], ["Esc", "close what is open"]];
function toggleHelp() {
  const help = $("help");
  if (!help.children.length) help.append(element("h3", {}, "Keys"), element("table", {}, ...KEYS.map(([key, words]) => element("tr", {}, element("td", {}, element("kbd", {}, key)), element("td", {}, words)))));
  help.hidden = !help.hidden;
  $("help-button").setAttribute("aria-expanded", String(!help.hidden));
}
function stepProblem(by) {
  const cards = [...document.querySelectorAll(".card")], at = cards.indexOf(document.activeElement);
  const next = cards[Math.min(Math.max(at + by, 0), cards.length - 1)];
  if (next) { next.focus(); next.scrollIntoView({ block: "center" }); }
}
function stepSelect(id, by) {
  const select = $(id);
  if (!select) return;
  select.selectedIndex = (select.selectedIndex + by + select.options.length) % select.options.length;
  select.dispatchEvent(new Event("change"));
}
function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") { $("results").hidden = true; $("help").hidden = true; closeInspector(); document.activeElement.blur(); return; }
  if (event.target.id === "search") {
    const first = $("results").querySelector("button");
    if (event.key === "ArrowDown" && first) { event.preventDefault(); first.focus(); }
    if (event.key === "Enter" && first) first.click();
    return;
  }
  if (event.target.closest && event.target.closest("#results")) {
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    if (step) { event.preventDefault(); const next = event.target[step]; (next && next.tagName === "BUTTON" ? next : $("search")).focus(); }
    return;
  }
  if (["INPUT", "SELECT"].includes(event.target.tagName)) return;
  const act = { "/": () => $("search").focus(), "?": toggleHelp, j: () => stepProblem(1), k: () => stepProblem(-1), "+": () => zoom(1.3), "-": () => zoom(1 / 1.3), 0: () => { fit(); moveCamera(); },
    l: () => stepSelect("view-choice", 1), n: () => stepSelect("piece-choice", 1), p: () => stepSelect("piece-choice", -1),
    g: () => { $("graphs").scrollIntoView(); if (boxes[0]) boxes[0].element.focus({ preventScroll: true }); } }[event.key];
  if (act) { event.preventDefault(); act(); }
  if (event.key === "Enter" && event.target.classList && event.target.classList.contains("line")) goToLine(event.target);
}

graphRoom();
guardRoom();
timeRoom();
fillIndex();
document.addEventListener("keydown", onKey);
$("search").addEventListener("input", (event) => showResults(event.target.value));
$("help-button").addEventListener("click", toggleHelp);
document.querySelectorAll(".line[tabindex]").forEach((line) => line.addEventListener("click", () => goToLine(line)));
document.querySelectorAll("[data-piece]").forEach((link) => link.addEventListener("click", () => {
  const number = pieces.findIndex((piece) => piece.n === +link.dataset.piece);
  if (number >= 0) { Object.assign(state, { piece: number, view: 0 }); chooseControls(); openSome(pieces[number], views(pieces[number])[0]); drawGraph(); }
}));
document.querySelectorAll("[data-cost]").forEach((link) => link.addEventListener("click", (event) => {
  const it = JSON.parse(link.dataset.cost), piece = pieces.findIndex((one) => one.n === it.piece);
  const view = piece < 0 ? -1 : views(pieces[piece]).findIndex((one) => one.level === "aten" && pieces[piece].parts[one.part].phase === it.phase);
  if (view < 0) return;
  event.preventDefault();
  choose(it.kernel === null ? { kind: "node", piece, view, node: it.node } : { kind: "kernel", piece, view, kernel: it.kernel });
}));
// For whoever drives the page from outside: `#search=gelu` shows the results at once.
const asked = new URLSearchParams(location.hash.slice(1)).get("search");
if (asked) { $("search").value = asked; showResults(asked); }
