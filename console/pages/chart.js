// chart: lines over time, as SVG.
import { h, replace, s } from "./dom.js";
import { clockOf } from "./time.js";

const HEIGHT = 160;
const BOTTOM = 20;
const TOP = 8;

// From 10 s on: each, and half of it, has one unit.
const SECONDS = [20, 60, 120, 240, 600, 1200, 3600, 7200, 14400, 28800, 86400, 172800, 345600];

// A round number that is not below n; of whole numbers, half of it is one, too.
function ceiling(n, { whole, seconds }) {
  if (seconds && n > 10) return SECONDS.find((f) => f >= n * 0.999) ?? Math.ceil(n / 864000) * 864000;
  if (whole && n <= 4) return n <= 2 ? 2 : 4;
  if (n <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(n));
  return (whole ? [1, 2, 4, 6, 8, 10] : [1, 2, 2.5, 5, 10]).map((f) => f * power).find((f) => f >= n * 0.999);
}

// Lines break where nothing is known.
function path(values, x, y) {
  let text = "";
  let pen = false;
  values.forEach((v, i) => {
    if (v === null || v === undefined) pen = false;
    else {
      text += `${pen ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
      if (!pen && (values[i + 1] ?? null) === null) text += "h0.1"; // a single value is a dot
      pen = true;
    }
  });
  return text;
}

const lastOf = (values) => values.findLast((v) => v !== null && v !== undefined) ?? null;

// {label, from, step, lines: [{label, values}], show(value), whole, seconds}: `seconds` when show() takes them
export function chart(data) {
  const box = h("figure", { class: "chart" });
  const legend = h("div", { class: "legend" });
  const place = h("div");
  let now = data;

  const names = (at) => replace(legend, now.lines.map((l, n) => h("span", null, h("i", { class: `fill-${n + 1}` }), `${l.label} `,
    h("b", null, now.show(at === null ? lastOf(l.values) : l.values[at] ?? null)))),
  at !== null && h("span", null, clockOf(now.from + at * now.step, now.step >= 300000)));

  function draw() {
    const width = Math.max(240, place.clientWidth || 480);
    const length = Math.max(...now.lines.map((l) => l.values.length), 2);
    const known = now.lines.flatMap((l) => l.values).filter((v) => v !== null && v !== undefined);
    const top = ceiling(Math.max(0, ...known), now);
    const left = Math.max(34, 12 + 6.2 * Math.max(...[0.5, 1].map((f) => now.show(top * f).length)));
    const x = (i) => left + (i / (length - 1)) * (width - left - 4);
    const y = (v) => TOP + (1 - v / top) * (HEIGHT - TOP - BOTTOM);
    const end = now.from + length * now.step;
    const long = end - now.from > 86400000;
    const cross = s("line", { class: "cross", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
    const said = now.lines.map((l) => `${l.label}: ${now.show(lastOf(l.values))}`).join(", ");
    const picture = s("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `${now.label}, newest values: ${said}`,
      onpointermove: (e) => {
        const box = picture.getBoundingClientRect();
        const at = Math.round((((e.clientX - box.left) / box.width) * width - left) / (width - left - 4) * (length - 1));
        if (at < 0 || at >= length) return;
        cross.setAttribute("x1", x(at));
        cross.setAttribute("x2", x(at));
        cross.setAttribute("visibility", "visible");
        names(at);
      },
      onpointerleave: () => {
        cross.setAttribute("visibility", "hidden");
        names(null);
      } },
    [0, 0.5, 1].map((f) => [s("line", { class: "axis", x1: left, x2: width - 4, y1: y(top * f), y2: y(top * f) }),
      s("text", { x: left - 6, y: y(top * f) + 4, "text-anchor": "end" }, now.show(top * f))]),
    [0, 0.5, 1].map((f) => s("text", { x: x((length - 1) * f), y: HEIGHT - 4, "text-anchor": f === 0 ? "start" : f === 1 ? "end" : "middle" },
      clockOf(now.from + (end - now.from) * f, long))),
    now.lines.map((l, n) => s("path", { class: `line line-${n + 1}`, d: path(l.values, x, y) })), cross);
    replace(place, known.length ? picture : h("div", { class: "state soft" }, "Nothing was measured in this time."));
    names(null);
  }

  replace(box, legend, place);
  new ResizeObserver(draw).observe(place);
  box.update = (next) => {
    now = next;
    draw();
  };
  return box;
}

// A line without axes, for a tile.
export function spark(values) {
  const known = values.filter((v) => v !== null && v !== undefined);
  const top = Math.max(...known, 1e-9);
  const x = (i) => (i / Math.max(1, values.length - 1)) * 100;
  const y = (v) => 29 - (v / top) * 26;
  return s("svg", { viewBox: "0 0 100 30", preserveAspectRatio: "none", "aria-hidden": "true" },
    known.length > 1 && s("path", { class: "line line-1", "vector-effect": "non-scaling-stroke", d: path(values, x, y) }));
}
