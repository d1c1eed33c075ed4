// lazy: the pages of a document, whose modules are loaded when they are first shown, or when nothing else is to be done.
import { replace } from "./dom.js";
import { route, show } from "./router.js";
import { failed } from "./states.js";
import { t } from "./texts.js";

const OTHERS_AFTER_MS = 500;

const pages = [];

// A page: {load, module, ...more}. Its module {title, show(place, context)} is loaded when the page is first shown. The
// build reads the lines that call this (cmake/embed_pages.cmake): the document of an address names all modules that its
// page needs.
export function page(pattern, load, more) {
  const made = { load, module: null, ...more };
  pages.push(made);
  route(pattern, made);
  return made;
}

export async function loadOne(page) {
  if (page) page.module ??= await page.load();
}

function fill(place, page, context, title) {
  title(page.module.title(context.params));
  try {
    page.module.show(place, context);
  } catch (e) {
    replace(place, failed(e, show, true));
  }
}

// Shows a page in `place`. `title` gets its title; `away` is called when its module could not be had.
export function showModule(place, page, context, title, away) {
  if (page.module) fill(place, page, context, title);
  else loadOne(page).then(() => context.signal.aborted || fill(place, page, context, title), () => {
    if (context.signal.aborted) return;
    replace(place, failed({ message: t`The files of this page could not be loaded. The console may have another version by now.` }, () => location.reload(), true));
    away();
  });
}

// When the browser has nothing else to do, the other pages, one after the other: a click then waits for no file, also
// when the console has a new version.
const idle = window.requestIdleCallback ?? ((work) => setTimeout(work, 1000));
function loadNext(isFor) {
  const next = pages.find((p) => !p.module && isFor(p));
  if (next) loadOne(next).then(() => idle(() => loadNext(isFor)), () => {}); // it is tried again when it is to be shown
}

export const loadOthers = (isFor = () => true) => setTimeout(() => idle(() => loadNext(isFor)), OTHERS_AFTER_MS);
