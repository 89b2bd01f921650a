"use strict";
(() => {
  const canvas = document.getElementById("map"), held = document.getElementById("map-data");
  if (!canvas || !held) return;
  const data = JSON.parse(held.textContent), tip = document.getElementById("tip");
  const read = (text, Kind) => text && new Kind(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  const nodes = read(data.nodes, Int16Array), made = read(data.made, Int16Array);
  const cluster = read(data.cluster, Uint16Array), labels = read(data.labels, Int16Array), ids = read(data.ids, Uint32Array);
  const count = nodes.length / 2, synthetic = made.length / 2, COLOURS = 8;
  const largest = Math.max(1, ...data.facts.map((fact) => fact.size));
  const context = canvas.getContext("2d");
  let view = { scale: 1, x: 0, y: 0 }, base = 1, width = 0, height = 0, ratio = 1;
  let colours = [], chosen = -1, picked = null, waiting = false, byLabel = false, groups = [];

  // Nodes by colour, so that a frame changes its fill eight times and not twenty thousand.
  const group = () => {
    groups = Array.from({ length: COLOURS + 1 }, () => []);
    for (let i = 0; i < count; i++) {
      const own = byLabel ? (labels[i] < 0 ? COLOURS : labels[i] % COLOURS) : data.colour[cluster[i]];
      groups[own].push(i);
    }
  };
  const theme = () => {
    const style = getComputedStyle(document.documentElement), get = (name) => style.getPropertyValue(name).trim();
    colours = Array.from({ length: COLOURS }, (_, i) => get(`--c${i}`));
    colours.push(get("--soft"));
    colours.ink = get("--ink"); colours.paper = get("--paper"); colours.dots = Number(get("--dots"));
  };
  const toX = (x) => width / 2 + (x * base * view.scale) + view.x, toY = (y) => height / 2 - (y * base * view.scale) + view.y;
  const radius = (k) => (3 + 5 * Math.sqrt(data.facts[k].size / largest)) * Math.min(1.8, Math.sqrt(view.scale));

  const draw = () => {
    waiting = false;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = colours.paper;
    context.fillRect(0, 0, width, height);
    const small = (count > 8000 ? 1.6 : count > 1500 ? 2.6 : 3.4) * Math.min(2.2, Math.sqrt(view.scale));
    groups.forEach((members, colour) => {
      context.fillStyle = colours[colour];
      for (const pass of chosen < 0 ? [0] : [0, 1]) {
        context.globalAlpha = chosen < 0 ? colours.dots : pass ? 1 : 0.12;
        for (const i of members) {
          if (chosen >= 0 && (cluster[i] === chosen) !== Boolean(pass)) continue;
          const x = toX(nodes[2 * i]), y = toY(nodes[2 * i + 1]);
          if (x > -4 && y > -4 && x < width + 4 && y < height + 4) context.fillRect(x - small / 2, y - small / 2, small, small);
        }
      }
    });
    for (let k = 0; k < synthetic; k++) {
      const x = toX(made[2 * k]), y = toY(made[2 * k + 1]), r = radius(k);
      if (x < -20 || y < -20 || x > width + 20 || y > height + 20) continue;
      context.globalAlpha = chosen < 0 || chosen === k ? 1 : 0.35;
      context.beginPath();
      context.arc(x, y, r, 0, 2 * Math.PI);
      context.fillStyle = byLabel ? colours.paper : colours[data.colour[k]];
      context.fill();
      context.lineWidth = chosen === k ? 3.2 : 1.5;
      context.strokeStyle = colours.ink;
      context.stroke();
    }
    context.globalAlpha = 1;
  };
  const redraw = () => { if (!waiting) { waiting = true; requestAnimationFrame(draw); } };
  const resize = () => {
    const box = canvas.getBoundingClientRect();
    width = box.width; height = box.height; ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    let wide = 1, high = 1;
    for (const list of [nodes, made]) for (let i = 0; i < list.length; i += 2) { wide = Math.max(wide, Math.abs(list[i])); high = Math.max(high, Math.abs(list[i + 1])); }
    base = Math.min((width / 2 - 16) / wide, (height / 2 - 16) / high);
    draw();
  };

  const zoom = (factor, x = width / 2, y = height / 2) => {
    const next = Math.min(60, Math.max(0.6, view.scale * factor)), by = next / view.scale;
    view.x = (x - width / 2) * (1 - by) + view.x * by;
    view.y = (y - height / 2) * (1 - by) + view.y * by;
    view.scale = next;
    touch(); place(); redraw();
  };
  // A finger scrolls the page past the whole map, and moves the map once it is zoomed.
  const touch = () => { canvas.style.touchAction = view.scale > 1.01 ? "none" : "pan-y"; };
  const pan = (x, y) => { view.x += x; view.y += y; place(); redraw(); };
  const reset = () => { view = { scale: 1, x: 0, y: 0 }; touch(); place(); redraw(); };

  const called = (label) => (data.classes ? data.classes[label] : label), ofClass = (label) => (data.classes ? called(label) : `class ${label}`);
  const share = (part, whole) => (whole ? Math.round((100 * part) / whole) : 0) + " %";
  const about = (k) => {
    const fact = data.facts[k], lines = [];
    let title = `Synthetic node ${fact.k}`;
    if (fact.source !== undefined) title += ` of ${data.sources[fact.source]}`;
    if (fact.class !== undefined && fact.class >= 0) title += `, ${ofClass(fact.class)}`;
    lines.push(`Represents ${fact.size} nodes; nearest to ${fact.near} here`);
    if (fact.f.length) lines.push(`Features that stand out: ${fact.f.join(", ")}`);
    if (fact.mix) lines.push(fact.mix.length ? `Classes: ${fact.mix.map(([c, n]) => `${called(c)} (${share(n, fact.known)})`).join(", ")}` : "No labelled nodes");
    return [title, lines];
  };
  const say = (found) => {
    picked = found;
    const before = chosen;
    chosen = found ? (found.made ? found.index : cluster[found.index]) : -1;
    if (found) {
      let [title, lines] = about(chosen);
      if (!found.made) {
        const label = labels && labels[found.index] >= 0 ? `, ${ofClass(labels[found.index])}` : "";
        lines = [title, ...lines];
        title = `Node ${data.names ? data.names[found.index] : ids ? ids[found.index] : found.index}${label}`;
      }
      tip.replaceChildren(Object.assign(document.createElement("b"), { textContent: title }));
      for (const line of lines) tip.append(Object.assign(document.createElement("div"), { textContent: line }));
      tip.hidden = false;
      place();
    } else tip.hidden = true;
    if (chosen !== before) redraw();
  };
  const place = () => {
    if (!picked) return;
    const list = picked.made ? made : nodes, x = toX(list[2 * picked.index]), y = toY(list[2 * picked.index + 1]);
    const left = x + 14 + tip.offsetWidth > width ? x - 14 - tip.offsetWidth : x + 14;
    const top = Math.min(Math.max(4, y - tip.offsetHeight / 2), height - tip.offsetHeight - 4);
    tip.style.transform = `translate(${Math.max(4, Math.min(left, width - tip.offsetWidth - 4))}px, ${top}px)`;
  };
  const find = (x, y) => {
    let best = null, least = 14;
    for (let k = 0; k < synthetic; k++) {
      const gap = Math.hypot(toX(made[2 * k]) - x, toY(made[2 * k + 1]) - y) - radius(k);
      if (gap < Math.min(least, 5)) { least = gap; best = { made: true, index: k }; }
    }
    if (best) return best;
    least = 12;
    for (let i = 0; i < count; i++) {
      const gap = Math.hypot(toX(nodes[2 * i]) - x, toY(nodes[2 * i + 1]) - y);
      if (gap < least) { least = gap; best = { made: false, index: i }; }
    }
    return best;
  };
  const step = (by) => {
    const now = picked && picked.made ? picked.index : by > 0 ? -1 : 0;
    const next = (now + by + synthetic) % synthetic;
    const x = toX(made[2 * next]), y = toY(made[2 * next + 1]);
    if (x < 20 || y < 20 || x > width - 20 || y > height - 20) { view.x += width / 2 - x; view.y += height / 2 - y; }
    say({ made: true, index: next }); redraw();
  };

  const fingers = new Map();
  const at = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  canvas.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, at(event));
    canvas.setPointerCapture(event.pointerId);
    canvas.style.cursor = "grabbing";
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = at(event), before = fingers.get(event.pointerId);
    if (!before) { say(find(x, y)); return; }
    const other = [...fingers].find(([id]) => id !== event.pointerId);
    if (other) {
      const [ox, oy] = other[1], was = Math.hypot(before[0] - ox, before[1] - oy), now = Math.hypot(x - ox, y - oy);
      if (was > 0) zoom(now / was, (x + ox) / 2, (y + oy) / 2);
    }
    pan((x - before[0]) / fingers.size, (y - before[1]) / fingers.size);
    fingers.set(event.pointerId, [x, y]);
  });
  const lift = (event) => {
    fingers.delete(event.pointerId);
    canvas.style.cursor = "";
    if (event.type === "pointerup") say(find(...at(event)));
  };
  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, lift);
  canvas.addEventListener("pointerleave", (event) => { if (!fingers.size && event.pointerType === "mouse") say(null); });
  canvas.addEventListener("wheel", (event) => { event.preventDefault(); zoom(Math.exp(-event.deltaY * 0.0016), ...at(event)); }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const keys = {
      ArrowLeft: () => pan(60, 0), ArrowRight: () => pan(-60, 0), ArrowUp: () => pan(0, 60), ArrowDown: () => pan(0, -60),
      "+": () => zoom(1.4), "=": () => zoom(1.4), "-": () => zoom(1 / 1.4), 0: reset, n: () => step(1), p: () => step(-1), Escape: () => say(null),
    };
    const found = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (found && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); found(); }
  });
  canvas.addEventListener("blur", () => say(null));
  const buttons = { in: () => zoom(1.5), out: () => zoom(1 / 1.5), reset };
  for (const button of document.querySelectorAll("button[data-do]")) button.addEventListener("click", buttons[button.dataset.do]);
  const select = document.getElementById("map-colour");
  if (select) select.addEventListener("change", () => {
    byLabel = select.value === "label";
    for (const legend of document.querySelectorAll(".legend[data-for]")) legend.hidden = legend.dataset.for !== select.value;
    group(); redraw();
  });
  const refresh = () => { theme(); draw(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
  matchMedia("print").addEventListener("change", refresh);
  new ResizeObserver(resize).observe(canvas);
  theme(); group(); resize(); touch();
  window.plgcMap = { view: () => ({ ...view }), find: (k) => [toX(made[2 * k]), toY(made[2 * k + 1])], nodes: count, draw };
})();
