// Renders schemas as tables of fields.

import { h } from "../dom.js";
import { markdown } from "../components/markdown_view.js";
import { choicesOf, fieldsOf, nameOf, resolve, typeWords } from "./schema.js";

export function schemaSection(document_, name, schema) {
  return h(
    "article.operation",
    { id: `schema-${name}` },
    h("h3", null, h("code", null, name)),
    schema.description && markdown(schema.description),
    schemaView(document_, schema),
  );
}

export function schemaView(document_, schema) {
  const fields = fieldsOf(document_, schema);
  const choices = choicesOf(document_, schema);
  if (fields.length > 0) return fieldTable(fields);
  if (choices.length > 0)
    return h(
      "ul.choices",
      null,
      choices.map((choice) =>
        h("li", null, nameOf(choice) ? typeLink(choice) : choiceView(document_, choice)),
      ),
    );
  return h("p", null, h("code", null, typeWords(resolve(document_, schema))));
}

function choiceView(document_, choice) {
  const fields = fieldsOf(document_, choice);
  return [
    choice.description && h("p.quiet", null, choice.description),
    fields.length > 0 ? fieldTable(fields) : h("code", null, typeWords(choice)),
  ];
}

function fieldTable(fields) {
  return h(
    "div.table-scroll",
    { tabindex: 0, role: "group", "aria-label": "Fields" },
    h(
      "table.docs-table",
      null,
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          ["Field", "Type", "Meaning"].map((title) => h("th", { scope: "col" }, title)),
        ),
      ),
      h(
        "tbody",
        null,
        fields.map(({ name, field, isRequired }) =>
          h(
            "tr",
            null,
            h("td", null, h("code", null, name), isRequired && h("span.required", null, " required")),
            h("td", null, typeLink(field)),
            h("td", null, meaning(field)),
          ),
        ),
      ),
    ),
  );
}

function meaning(field) {
  const bounds = [
    field.minimum !== undefined && `at least ${field.minimum}`,
    field.maximum !== undefined && `at most ${field.maximum}`,
    field.minLength && `${field.minLength} characters or more`,
    field.maxLength && `at most ${field.maxLength} characters`,
  ].filter(Boolean);
  return [field.description, bounds.length > 0 && `(${bounds.join(", ")})`].filter(Boolean).join(" ");
}

/** A type, with a link to its schema if it has one. */
export function typeLink(schema) {
  const inner =
    schema?.type === "array"
      ? schema.items
      : ((schema?.oneOf ?? schema?.anyOf ?? []).find((choice) => choice.$ref) ?? schema);
  const name = nameOf(inner);
  const words = h("code", null, typeWords(schema));
  return name ? h("a", { href: `#schema-${name}` }, words) : words;
}
