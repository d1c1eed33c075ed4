// brand: the operator's colour, and what can be read on it and beside it: texts have a contrast of at least 4.5 to 1.

const ENOUGH = 4.5;
// The surfaces of portal.css and tokens.css on which links are, the ones with the least contrast.
export const SURFACES = { light: "#eef1f6", dark: "#222934" };

const parse = (colour) => [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
const write = (rgb) => `#${rgb.map((v) => Math.round(v).toString(16).padStart(2, "0")).join("")}`;
const mix = (a, b, share) => a.map((v, i) => v + (b[i] - v) * share);

// As WCAG defines it.
function luminance(rgb) {
  const [r, g, b] = rgb.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

export function contrast(one, other) {
  const [a, b] = [luminance(parse(one)), luminance(parse(other))];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}

// Black or white: one of them always has 4.58 or more.
export const textOn = (colour) => (contrast(colour, "#ffffff") >= contrast(colour, "#000000") ? "#ffffff" : "#000000");

// The colour, or the nearest one on the way to black or white that can be read on the surface.
export function readable(colour, surface) {
  const end = parse(textOn(surface));
  for (let share = 0; share < 1; share += 0.05) {
    const c = write(mix(parse(colour), end, share));
    if (contrast(c, surface) >= ENOUGH) return c;
  }
  return write(end);
}

// Sets what portal.css uses, light and dark.
export function useColour(colour) {
  const style = document.documentElement.style;
  style.setProperty("--brand", colour);
  style.setProperty("--on-brand", textOn(colour));
  for (const [look, surface] of Object.entries(SURFACES)) {
    const accent = readable(colour, surface);
    style.setProperty(`--accent-${look}`, accent);
    style.setProperty(`--on-accent-${look}`, textOn(accent));
  }
}
