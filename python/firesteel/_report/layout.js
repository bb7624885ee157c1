// Lays boxes out in rows, each below what it reads. Boxes and edges in; positions and paths out. Knows no page.
"use strict";

const Layout = (() => {
  const ROW = 64, GAP = 22, HEIGHT = 38;

  // `boxes`: {key, order, width}; `edges`: [from key, to key]. Edges against the order are drawn, and move nothing.
  function place(boxes, edges) {
    const byKey = new Map(boxes.map((box) => [box.key, box]));
    settleOrder(boxes, edges, byKey);
    const above = new Map(boxes.map((box) => [box.key, []]));
    const below = new Map(boxes.map((box) => [box.key, []]));
    for (const [from, to] of edges) {
      if (byKey.get(from).order < byKey.get(to).order) {
        above.get(to).push(byKey.get(from));
        below.get(from).push(byKey.get(to));
      }
    }
    for (const box of boxes) box.rank = Math.max(-1, ...above.get(box.key).map((it) => it.rank)) + 1;
    // What reads nothing stands just above its first reader, not at the top.
    for (const box of boxes) {
      const readers = below.get(box.key);
      if (!above.get(box.key).length && readers.length) box.rank = Math.max(0, Math.min(...readers.map((it) => it.rank)) - 1);
    }
    const rows = [];
    for (const box of boxes) (rows[box.rank] = rows[box.rank] || []).push(box);
    const filled = rows.filter(Boolean);
    filled.forEach((row, number) => row.forEach((box) => { box.rank = number; }));
    for (const row of filled) spread(row, row.map(() => 0));
    for (let sweep = 0; sweep < 4; ++sweep) {
      const down = sweep % 2 === 0;
      for (const row of down ? filled : [...filled].reverse()) {
        const pulls = row.map((box) => middle((down ? above : below).get(box.key), box.x));
        spread(row, pulls);
      }
    }
    const left = Math.min(0, ...boxes.map((box) => box.x - box.width / 2));
    for (const box of boxes) { box.x -= left - 20; box.y = box.rank * ROW + 30; box.height = HEIGHT; }
    return {
      width: Math.max(100, ...boxes.map((box) => box.x + box.width / 2)) + 40,
      height: filled.length * ROW + 40,
      paths: edges.map(([from, to]) => path(byKey.get(from), byKey.get(to))),
    };
  }

  // Behind what it reads, and else in the order given; where boxes read each other in a circle, the first goes first.
  function settleOrder(boxes, edges, byKey) {
    const waits = new Map(boxes.map((box) => [box.key, 0])), readers = new Map(boxes.map((box) => [box.key, []]));
    for (const [from, to] of edges) { waits.set(to, waits.get(to) + 1); readers.get(from).push(byKey.get(to)); }
    const left = [...boxes].sort((a, b) => a.order - b.order);
    for (let place = 0; left.length; ++place) {
      const ready = left.findIndex((box) => waits.get(box.key) <= 0);
      const [next] = left.splice(Math.max(ready, 0), 1);
      readers.get(next.key).forEach((box) => waits.set(box.key, waits.get(box.key) - 1));
      next.order = place;
    }
    boxes.sort((a, b) => a.order - b.order);
  }

  function middle(neighbours, otherwise) {
    return neighbours.length ? neighbours.reduce((sum, it) => sum + it.x, 0) / neighbours.length : otherwise;
  }

  // Each box as near to where it is pulled as the others of its row allow.
  function spread(row, pulls) {
    const order = row.map((box, i) => ({ box, pull: pulls[i] })).sort((a, b) => a.pull - b.pull);
    let edge = -Infinity, offset = 0;
    for (const it of order) {
      it.x = Math.max(it.pull, edge + it.box.width / 2);
      edge = it.x + it.box.width / 2 + GAP;
      offset += it.x - it.pull;
    }
    offset /= order.length || 1;
    for (const it of order) it.box.x = it.x - offset;
  }

  function path(from, to) {
    const back = from.order >= to.order;
    const [x1, y1, x2, y2] = [from.x, from.y + HEIGHT, to.x, to.y];
    const rows = to.rank - from.rank;
    if (back || rows <= 1) return { back, d: `M${x1} ${y1} C${x1} ${y1 + 22} ${x2} ${y2 - 22} ${x2} ${y2}` };
    // Around what lies between.
    const side = Math.max(x1 + from.width / 2, x2 + to.width / 2) + 18 + Math.min(rows, 10) * 6;
    return { back, d: `M${x1} ${y1} C${x1} ${y1 + 24} ${side} ${y1 + 10} ${side} ${(y1 + y2) / 2} S${x2} ${y2 - 26} ${x2} ${y2}` };
  }

  return { place, HEIGHT };
})();
