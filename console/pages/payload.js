// payload: shows the bytes of an event as text, never as what they claim to be.
import { inPortal } from "./api.js";
import { h, replace } from "./dom.js";
import { copy } from "./states.js";
import { bytes, pretty } from "./text.js";
import { t } from "./texts.js";

const SHOWN = 256 * 1024;

function hex(data) {
  const lines = [];
  for (let i = 0; i < Math.min(data.length, 4096); i += 16) {
    const row = data.subarray(i, i + 16);
    lines.push(`${i.toString(16).padStart(6, "0")}  ${Array.from(row, (b) => b.toString(16).padStart(2, "0")).join(" ").padEnd(48)}  ${
      Array.from(row, (b) => (b > 31 && b < 127 ? String.fromCharCode(b) : ".")).join("")}`);
  }
  return lines.join("\n");
}

function decode(data) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return null;
  }
}

// A link has no token of the portal, and cannot show an error; the bytes are here already.
export function save(data, name) {
  const url = URL.createObjectURL(new Blob([data], { type: "application/octet-stream" }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

// {bytes, type} as the API has it; `download`: the address of the bytes, or null.
export function payload({ bytes: data, type }, download) {
  const text = decode(data);
  const shown = text?.slice(0, SHOWN);
  const lines = text !== null && data.length <= SHOWN ? pretty(text) : null;
  const block = h("pre", { class: "block", tabindex: "0" });
  const tabs = h("div", { class: "tabs", role: "group", "aria-label": t`form` });
  const forms = [lines && [t`Pretty`, () => lines.map((p) => (p.kind ? h("span", { class: p.kind }, p.text) : p.text))],
    text !== null && [t`Raw`, () => shown], ["Hex", () => hex(data)]].filter(Boolean);

  function choose([name, make]) {
    replace(block, data.length ? make() : t`(empty)`);
    replace(tabs, forms.map((f) => h("button", { "aria-pressed": String(f[0] === name), onclick: () => choose(f) }, f[0])));
  }
  choose(forms[0]);
  return h("div", { class: "stack" }, h("div", { class: "row" }, tabs, h("span", { class: "soft small grow" },
    `${bytes(data.length)}${type ? ` · ${type}` : ""}`),
  text !== null && copy(text, t`copy`, t`the payload`), download && (inPortal() ? h("button", { class: "plain small", onclick: () => save(data, "payload") }, t`Download`) : h("a", { href: download, download: true, class: "small" }, t`Download`))),
  block, (data.length > SHOWN || (text === null && data.length > 4096)) && h("p", { class: "soft small" }, download ? t`This is the beginning; the download has all of it.` : t`This is the beginning.`));
}
