// text: shows what senders wrote: characters that cannot be seen, or that change the order of others, are
// shown by their number.

import { localeNow, word } from "./texts.js";

// Control characters, bidirectional controls, characters without width, tags, halves of surrogate pairs.
const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]|\p{Surrogate}/gu;

function number(character) {
  return `⟨U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

// [{text, odd}] of a text.
export function parts(text) {
  const out = [];
  let from = 0;
  for (const found of text.matchAll(ODD)) {
    if (found.index > from) out.push({ text: text.slice(from, found.index), odd: false });
    out.push({ text: number(found[0]), odd: true });
    from = found.index + found[0].length;
  }
  if (from < text.length) out.push({ text: text.slice(from), odd: false });
  return out;
}

export const visible = (text) => parts(String(text)).map((p) => p.text).join("");

// With so many digits behind the point.
export const fixed = (n, digits) => n.toLocaleString(localeNow(), { minimumFractionDigits: digits, maximumFractionDigits: digits });

export function count(n) {
  if (n === null || n === undefined) return "–";
  if (Math.abs(n) >= 1e6) return `${fixed(n / 1e6, 1)} M`;
  return Math.round(n).toLocaleString(localeNow());
}

export function rate(n) {
  if (n === null || n === undefined) return "–";
  return n >= 100 ? count(n) : n >= 10 ? fixed(n, 1) : n === 0 ? "0" : fixed(n, n < 0.1 ? 2 : 1);
}

export function bytes(n) {
  if (n === null || n === undefined) return "–";
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (n < 1024 || unit === "GiB") return `${unit === "B" ? n : fixed(n, 1)} ${unit}`;
    n /= 1024;
  }
}

export function percent(share) {
  if (share === null || share === undefined) return "–";
  const p = share * 100;
  return `${p === 100 || p === 0 ? p : fixed(p > 99.9 ? 99.9 : p, 1)} %`;
}

// Words of the API for people: "in_flight" → "in flight".
export const words = word;

export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

// A word of a shell command.
export const quoted = (text) => (/^[A-Za-z0-9_\-./:=@%]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

// JSON with a line for each member. Numbers and strings keep their digits and letters, as JSON.parse() would
// round long numbers. [{text, kind}], or null: it is not JSON.
export function pretty(text) {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const out = [];
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/gs) || [];
  let depth = 0;
  const line = () => out.push({ text: `\n${"  ".repeat(depth)}`, kind: "" });
  tokens.forEach((token, i) => {
    if (token === "{" || token === "[") {
      out.push({ text: token, kind: "" });
      if (tokens[i + 1] === "}" || tokens[i + 1] === "]") return;
      depth++;
      line();
    } else if (token === "}" || token === "]") {
      if (tokens[i - 1] !== "{" && tokens[i - 1] !== "[") {
        depth--;
        line();
      }
      out.push({ text: token, kind: "" });
    } else if (token === ",") {
      out.push({ text: token, kind: "" });
      line();
    } else if (token === ":") {
      out.push({ text: ": ", kind: "" });
    } else {
      const kind = token[0] !== '"' ? "json-other" : tokens[i + 1] === ":" ? "json-key" : "json-string";
      out.push({ text: token, kind });
    }
  });
  return out;
}
