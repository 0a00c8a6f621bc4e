// Saves a finding: the page's own view of it as a file, or its data. Both are made here, without a request.

import { html } from "./dom.js";

/** The policy of a saved report, which allows nothing but its styles. */
const POLICY = "default-src 'none'; style-src 'unsafe-inline'";

function save(name, kind, parts) {
  const link = html("a", { download: name, href: URL.createObjectURL(new Blob(parts, { type: kind })) });
  link.click();
  // The browser has begun to copy it by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function styles() {
  const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]);
  return rules.map((rule) => rule.cssText).join("\n");
}

/** The elements as a separate page, without those that need scripts. */
function whole(sections, date) {
  const page = document.implementation.createHTMLDocument("Verdigris: the mark in a text");
  page.documentElement.lang = "en";
  const add = (parent, name, attributes, ...children) => {
    const element = page.createElement(name);
    Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
    element.append(...children);
    parent.append(element);
    return element;
  };
  page.head.querySelector("title").before(page.createElement("meta"));
  page.head.querySelector("meta").setAttribute("charset", "utf-8");
  add(page.head, "meta", { "http-equiv": "Content-Security-Policy", content: POLICY });
  add(page.head, "meta", { name: "viewport", content: "width=device-width, initial-scale=1" });
  const main = add(page.body, "main", { class: "report" });
  add(main, "p", { class: "note" }, `Found by Verdigris on ${date}.`);
  for (const section of sections) {
    const copy = page.importNode(section, true);
    copy.querySelectorAll(".walk, .keep, .skip").forEach((element) => element.remove());
    copy.querySelectorAll("button").forEach((button) => button.replaceWith(page.createTextNode(button.textContent)));
    main.append(copy);
  }
  // As text, since this page's own policy would refuse a style element. The rules are those of this page.
  const style = `<style>\n${styles()}\nmain.report { display: block; } .report .text { max-height: none; }\n</style>`;
  return `<!doctype html>\n${page.documentElement.outerHTML.replace("</head>", () => `${style}</head>`)}\n`;
}

/**
 * The buttons that save a finding. `finding` returns its data, `found`, and its elements, `sections`. Returns the element,
 * and a function that shows the button for the signed report if the finding has one.
 */
export function keeping(finding) {
  const named = (kind) => `verdigris-${new Date().toISOString().slice(0, 10)}.${kind}`;
  const report = html("button", { type: "button" }, "Save the report");
  const data = html("button", { type: "button" }, "Save the data");
  report.addEventListener("click", () => {
    const date = `${new Date().toISOString().slice(0, 16).replace("T", " ")} UTC`;
    save(named("html"), "text/html", [whole(finding().sections, date)]);
  });
  data.addEventListener("click", () => {
    save(named("json"), "application/json", [JSON.stringify(finding().found, null, 1)]);
  });
  const signed = html("button", { type: "button", hidden: true }, "Download the signed report");
  signed.addEventListener("click", () => {
    save(named("report.json"), "application/json", [JSON.stringify(finding().found.report)]);
  });
  const element = html("p", { class: "buttons keep" }, report, data, signed);
  return { element, update: () => (signed.hidden = !finding().found.report) };
}
