// exchange: one attempt: the request as it was sent, and the response.
import { h } from "./dom.js";
import { duration } from "./time.js";

const NULL = "(the event's own value)";

const headerLines = (headers) => (Array.isArray(headers) ? headers.map(([name, value]) => `${name}: ${value ?? NULL}`).join("\n") : String(headers ?? "").trim());

const STEPS = [["dns_ms", "address"], ["connect_ms", "connected"], ["tls_ms", "TLS"], ["first_byte_ms", "first byte"], ["total_ms", "end"]];

export function exchange(a) {
  const sent = a.request;
  const steps = STEPS.filter(([key]) => a.timings?.[key] !== null && a.timings?.[key] !== undefined);
  return h("div", { class: "stack" },
    a.error && h("p", { class: "note bad" }, a.error),
    steps.length > 0 && h("p", { class: "soft small" }, steps.map(([key, name], i) => `${i ? " → " : ""}${name} ${duration(a.timings[key])}`)),
    sent && [h("h3", null, "Request"), h("pre", { class: "block", tabindex: "0" }, `${sent.method} ${sent.url ?? ""}\n${headerLines(sent.headers)}${sent.body ? `\n\n${sent.body}` : ""}`)],
    a.response ? [h("h3", null, "Response"), h("pre", { class: "block", tabindex: "0" }, `HTTP/${a.response.http_version ?? "?"} ${a.http_status ?? ""}\n${headerLines(a.response.headers)}${a.response.body ? `\n\n${a.response.body}` : ""}`)]
      : a.response === null && h("p", { class: "soft" }, "There was no response."),
    !sent && a.response === undefined && h("p", { class: "soft" }, "The deliverer no longer keeps this exchange."));
}
