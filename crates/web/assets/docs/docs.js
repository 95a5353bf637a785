// The API reference: renders /openapi.json and adds nothing to it.

import { api } from "../api.js";
import { fill, h } from "../dom.js";
import { copyButton, loading, problemNotice } from "../components/feedback.js";
import { icon, mark } from "../components/icons.js";
import { codeBlock } from "../components/code_view.js";
import { markdown } from "../components/markdown_view.js";
import { curlOf, exampleOf, nameOf, operationsByTag, resolve, typeWords } from "./schema.js";
import { schemaSection, schemaView, typeLink } from "./schema_view.js";

const main = document.getElementById("main");

function drawBar() {
  fill(
    document.getElementById("bar"),
    h("a.brand", { href: "/", "aria-label": "Hotcell, all jobs" }, mark(), h("span", null, "hotcell")),
    h(
      "div.bar-end",
      null,
      h(
        "button.button.quiet.square",
        {
          type: "button",
          "aria-label": "Switch between dark and light",
          on: { click: () => window.hotcellTheme.toggle() },
        },
        icon("sun"),
      ),
      h("a.button.small", { href: "/openapi.json" }, "openapi.json"),
    ),
  );
}

function draw(document_) {
  const groups = operationsByTag(document_);
  const schemas = Object.entries(document_.components?.schemas ?? {});
  const info = document_.info ?? {};
  const contents = h(
    "nav.docs-nav",
    { "aria-label": "Contents" },
    [...groups].map(([tag, operations]) => [
      h("h2", null, tag),
      h(
        "ul",
        null,
        operations.map((one) =>
          h(
            "li",
            null,
            h(
              "a",
              { href: `#${one.anchor}` },
              h("span.method", { class: one.method }, one.method.toUpperCase()),
              h("span", null, one.path),
            ),
          ),
        ),
      ),
    ]),
    schemas.length > 0 && [
      h("h2", null, "Schemas"),
      h(
        "ul",
        null,
        schemas.map(([name]) => h("li", null, h("a", { href: `#schema-${name}` }, name))),
      ),
    ],
  );
  const tagWords = new Map((document_.tags ?? []).map(({ name, description }) => [name, description]));
  fill(
    main,
    h(
      "div.docs",
      null,
      contents,
      h(
        "div.docs-main",
        null,
        h("h1", null, info.title ?? "API", info.version && h("span.tag", null, info.version)),
        info.description && markdown(info.description),
        [...groups].map(([tag, operations]) =>
          h(
            "section",
            null,
            h("h2.docs-tag", null, tag),
            tagWords.get(tag) && h("p.quiet", null, tagWords.get(tag)),
            operations.map((one) => operationView(document_, one)),
          ),
        ),
        h(
          "section",
          null,
          h("h2.docs-tag", null, "Schemas"),
          schemas.map(([name, schema]) => schemaSection(document_, name, schema)),
        ),
      ),
    ),
  );
  if (window.location.hash) document.getElementById(window.location.hash.slice(1))?.scrollIntoView();
}

function operationView(document_, one) {
  const { path, method, operation, parameters, anchor } = one;
  const body = operation.requestBody?.content ?? {};
  const command = curlOf(document_, one, window.location.origin);
  return h(
    "article.operation",
    { id: anchor },
    h(
      "h3",
      null,
      h("span.method", { class: method }, method.toUpperCase()),
      h("code", null, path),
      h("a.anchor", { href: `#${anchor}`, "aria-label": `Link to ${method} ${path}` }, icon("link")),
    ),
    operation.summary && markdown(operation.summary),
    operation.description && markdown(operation.description),
    h("div.command", null, h("code", { tabindex: 0 }, command), copyButton(command, "Copy the command")),
    parameters.length > 0 && [h("h4", null, "Parameters"), parameterTable(parameters)],
    Object.keys(body).length > 0 && [
      h("h4", null, "Body"),
      Object.entries(body).map(([type, media]) => mediaView(document_, type, media)),
    ],
    h("h4", null, "Answers"),
    h(
      "dl.answers",
      null,
      Object.entries(operation.responses ?? {}).map(([status, answer]) =>
        answerView(document_, status, answer),
      ),
    ),
  );
}

function parameterTable(parameters) {
  return h(
    "div.table-scroll",
    { tabindex: 0, role: "group", "aria-label": "Parameters" },
    h(
      "table.docs-table",
      null,
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          ["Name", "In", "Type", "Meaning"].map((title) => h("th", { scope: "col" }, title)),
        ),
      ),
      h(
        "tbody",
        null,
        parameters.map((one) =>
          h(
            "tr",
            null,
            h("td", null, h("code", null, one.name), one.required && h("span.required", null, " required")),
            h("td", null, one.in),
            h("td", null, h("code", null, typeWords(one.schema))),
            h("td", null, one.description ?? ""),
          ),
        ),
      ),
    ),
  );
}

function mediaView(document_, type, media) {
  const name = nameOf(media.schema);
  return h(
    "div.media",
    null,
    h(
      "p",
      null,
      h("code", null, type),
      " ",
      name ? typeLink(media.schema) : h("code", null, typeWords(media.schema)),
    ),
    !name && resolve(document_, media.schema).properties && schemaView(document_, media.schema),
    type === "application/json" &&
      codeBlock(JSON.stringify(media.example ?? exampleOf(document_, media.schema), null, 2), "json"),
  );
}

function answerView(document_, status, answer) {
  const kinds = Object.entries(answer.content ?? {});
  return [
    h("dt", null, h("span.answer-status", { class: /^[23]/.test(status) ? "good" : "bad" }, status)),
    h(
      "dd",
      null,
      answer.description ?? "",
      kinds.map(([type, media]) =>
        h(
          "span.answer-type",
          null,
          " ",
          h("code", null, type),
          " ",
          media.schema &&
            (nameOf(media.schema) ? typeLink(media.schema) : h("code", null, typeWords(media.schema))),
        ),
      ),
    ),
  ];
}

drawBar();
fill(main, h("div.page", null, loading("Reading the document…")));
api
  .openapi()
  .then(draw, (problem) => fill(main, h("div.page", null, h("h1", null, "API"), problemNotice(problem))));
