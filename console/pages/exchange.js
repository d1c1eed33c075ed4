// exchange: one attempt: the request as it was sent, and the response.
import { h } from "./dom.js";
import { t } from "./texts.js";
import { duration } from "./time.js";

const nothing = () => t`(the event's own value)`;

const headerLines = (headers) => (Array.isArray(headers) ? headers.map(([name, value]) => `${name}: ${value ?? nothing()}`).join("\n") : String(headers ?? "").trim());

const stepsOf = () => [["dns_ms", t`address`], ["connect_ms", t`connected`], ["tls_ms", "TLS"], ["first_byte_ms", t`first byte`], ["total_ms", t`end`]];

export function exchange(a) {
  const sent = a.request;
  const steps = stepsOf().filter(([key]) => a.timings?.[key] !== null && a.timings?.[key] !== undefined);
  return h("div", { class: "stack" },
    a.error && h("p", { class: "note bad" }, a.error),
    steps.length > 0 && h("p", { class: "soft small" }, steps.map(([key, name], i) => `${i ? " → " : ""}${name} ${duration(a.timings[key])}`)),
    sent && [h("h3", null, t`Request`), h("pre", { class: "block", tabindex: "0" }, `${sent.method} ${sent.url ?? ""}\n${headerLines(sent.headers)}${sent.body ? `\n\n${sent.body}` : ""}`)],
    a.response ? [h("h3", null, t`Response`), h("pre", { class: "block", tabindex: "0" }, `HTTP/${a.response.http_version ?? "?"} ${a.http_status ?? ""}\n${headerLines(a.response.headers)}${a.response.body ? `\n\n${a.response.body}` : ""}`)]
      : a.response === null && h("p", { class: "soft" }, t`There was no response.`),
    !sent && a.response === undefined && h("p", { class: "soft" }, t`The deliverer no longer keeps this exchange.`));
}
