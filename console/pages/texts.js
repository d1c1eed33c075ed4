// texts: the texts of a page in the reader's language. Modules have them in English, as t`Attempt ${n}`; the file of
// another language, texts_LANGUAGE.js, has what stands for each of them.

const LANGUAGES = ["de"]; // those that have a file, beside English

let texts = {};
let known = {};
let locale = "en-US";

// Of numbers.
export const localeNow = () => locale;

// The first of the reader's languages that has texts; without one, English.
export async function chooseLanguage(wanted = navigator.languages) {
  for (const tag of wanted) {
    const name = tag.toLowerCase().split("-")[0];
    if (name === "en") return;
    if (!LANGUAGES.includes(name)) continue;
    ({ texts, words: known } = (await import(`./texts_${name}.js`)).default);
    locale = tag;
    document.documentElement.lang = name;
    return;
  }
}

// A text with values in it: {0} stands for the first. With an element among them it is a list, which h() takes.
export function t(strings, ...values) {
  const english = strings.reduce((all, s, i) => `${all}{${i - 1}}${s}`);
  const text = texts[english] ?? english;
  if (!values.length) return text;
  const parts = text.split(/\{(\d+)\}/).map((p, i) => (i % 2 ? values[p] : p));
  return values.some((v) => typeof v === "object" && v !== null) ? parts : parts.join("");
}

// A text of the API that may have a translation: a message, or a word such as in_flight.
export const said = (text) => texts[text] ?? text;
export const word = (text) => (Object.hasOwn(known, text) ? known[text] : String(text ?? "").replaceAll("_", " "));
