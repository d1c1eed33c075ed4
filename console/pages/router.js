// router: finds the page of an address, shows it, and follows links without loading the document again.

const routes = [];
let base = ""; // of the addresses of all pages
let name = "Grapnel"; // of all pages, in titles
let current = null; // of the page that is shown: {abort, path}
let frame = null; // shows a page's element

export function route(pattern, page) {
  const names = [];
  const text = pattern.replace(/:(\w+)/g, (_, name) => (names.push(name), "([^/]+)"));
  routes.push({ expression: new RegExp(`^${text}$`), names, page });
}

export function startBelow(path, title) {
  base = path;
  name = title;
}

// The address of a page: "/events" → "/portal/events".
export const addressOf = (path) => base + path;
export const titled = (text) => {
  document.title = `${text} · ${name}`;
};

function find(address) {
  if (!address.startsWith(base)) return null;
  const path = address.slice(base.length) || "/";
  for (const r of routes) {
    const found = r.expression.exec(path);
    if (!found) continue;
    try {
      return { page: r.page, params: Object.fromEntries(r.names.map((n, i) => [n, decodeURIComponent(found[i + 1])])) };
    } catch {
      return null;
    }
  }
  return null;
}

export const pageOf = (address) => find(address)?.page;

// What a page gets: its parameters, the query, and a signal that ends what it has begun.
export function show() {
  current?.abort.abort();
  const abort = new AbortController();
  current = { abort, path: location.pathname };
  const found = find(location.pathname);
  frame(found?.page ?? null, {
    params: found?.params ?? {},
    query: new URLSearchParams(location.search),
    signal: abort.signal,
    every(ms, work) {
      let running = false;
      const timer = setInterval(async () => {
        if (running || document.hidden) return;
        running = true;
        try {
          await work();
        } catch { /* the banner says that the console does not respond */ }
        running = false;
      }, ms);
      abort.signal.addEventListener("abort", () => clearInterval(timer));
    },
  });
}

// Ends what the page that is shown has begun.
export const stop = () => current?.abort.abort();

export function go(href, { replace = false } = {}) {
  if (replace) history.replaceState(null, "", addressOf(href));
  else history.pushState(null, "", addressOf(href));
  show();
}

// Changes the query without showing the page again: a view that can be linked to.
export function setQuery(values) {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) if (value) q.set(name, value);
  const text = q.toString();
  history.replaceState(null, "", location.pathname + (text ? `?${text}` : ""));
}

export const href = (path, query) => {
  const q = new URLSearchParams(Object.entries(query || {}).filter(([, v]) => v !== null && v !== undefined && v !== ""));
  const text = q.toString();
  return path + (text ? `?${text}` : "");
};

export function startRouter(showPage) {
  frame = showPage;
  addEventListener("popstate", show);
  document.addEventListener("click", (e) => {
    const a = e.target.closest?.("a[href]");
    if (!a || e.defaultPrevented || e.button || e.ctrlKey || e.metaKey || e.shiftKey || a.hasAttribute("target") || a.hasAttribute("download")) return;
    const to = new URL(a.getAttribute("href"), location.href); // a link in a drawing has no `pathname`
    if (to.origin !== location.origin || !find(to.pathname) || to.hash) return;
    e.preventDefault();
    go(to.pathname.slice(base.length) + to.search);
  });
  show();
}
