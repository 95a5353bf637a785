// Reads the schemas of an OpenAPI document: type names, fields, and generated examples. Pure.
// Recursion is limited, so that cycles end.

const MAX_DEPTH = 6;

/** The schema that a reference points to. */
export function resolve(document, schema) {
  let found = schema ?? {};
  for (let step = 0; found.$ref && step < 16; step += 1) found = lookUp(document, found.$ref) ?? {};
  return found;
}

/** The value that a reference points to. */
export function lookUp(document, reference) {
  if (!reference.startsWith("#/")) return undefined;
  return reference
    .slice(2)
    .split("/")
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce((value, part) => value?.[part], document);
}

/** The name of a referenced schema, or null. */
export function nameOf(schema) {
  return schema?.$ref ? schema.$ref.split("/").at(-1) : null;
}

/** A short description of a type: `string (uuid)`, `Job[]`, `"a" | "b"`. */
export function typeWords(schema) {
  if (!schema || schema === true) return "anything";
  const name = nameOf(schema);
  if (name) return name;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices) return choices.map(typeWords).join(" | ");
  if (schema.allOf) return schema.allOf.map(typeWords).join(" & ");
  const types = [schema.type ?? "anything"]
    .flat()
    .map((type) => (type === "array" ? `${typeWords(schema.items)}[]` : type));
  const words = types.join(" | ");
  return schema.format && !["double", "int32", "int64"].includes(schema.format)
    ? `${words} (${schema.format})`
    : words;
}

/** The fields of an object, including those of its `allOf` parts. */
export function fieldsOf(document, schema, depth = 0) {
  const whole = resolve(document, schema);
  if (depth > MAX_DEPTH) return [];
  const parts = (whole.allOf ?? []).flatMap((part) => fieldsOf(document, part, depth + 1));
  const required = new Set(whole.required ?? []);
  const own = Object.entries(whole.properties ?? {}).map(([name, field]) => ({
    name,
    field,
    isRequired: required.has(name),
  }));
  return [...parts, ...own];
}

/** The alternatives of a `oneOf` or `anyOf` schema. */
export function choicesOf(document, schema) {
  const whole = resolve(document, schema);
  return whole.oneOf ?? whole.anyOf ?? [];
}

/** A valid value for a schema, for examples. */
export function exampleOf(document, schema, depth = 0) {
  const whole = resolve(document, schema);
  if (whole.example !== undefined) return whole.example;
  if (Array.isArray(whole.examples) && whole.examples.length > 0) return whole.examples[0];
  if (whole.default !== undefined && whole.default !== null) return whole.default;
  if (whole.const !== undefined) return whole.const;
  if (whole.enum) return whole.enum[0];
  if (depth > MAX_DEPTH) return null;
  const choices = whole.oneOf ?? whole.anyOf;
  if (choices)
    return exampleOf(document, choices.find((choice) => choice.type !== "null") ?? choices[0], depth + 1);
  if (whole.allOf || whole.properties) {
    const wanted = fieldsOf(document, whole).filter(({ isRequired }) => isRequired);
    return Object.fromEntries(wanted.map(({ name, field }) => [name, exampleOf(document, field, depth + 1)]));
  }
  const type = [whole.type].flat().find((name) => name !== "null");
  if (type === "array") return [];
  if (type === "integer" || type === "number") return whole.minimum ?? 1;
  if (type === "boolean") return true;
  if (type === "object") return {};
  return (
    {
      uuid: "0192f3c0-1a2b-7c3d-8e4f-000000000001",
      "date-time": "2026-01-31T17:45:02Z",
      uri: "https://example.com",
    }[whole.format] ?? "text"
  );
}

/** Operations by tag, in the order of the document. */
export function operationsByTag(document) {
  const groups = new Map();
  for (const [path, item] of Object.entries(document.paths ?? {})) {
    for (const method of ["get", "post", "put", "patch", "delete"]) {
      const operation = item[method];
      if (!operation) continue;
      const tag = operation.tags?.[0] ?? "other";
      if (!groups.has(tag)) groups.set(tag, []);
      const parameters = [...(item.parameters ?? []), ...(operation.parameters ?? [])].map((one) =>
        one.$ref ? (lookUp(document, one.$ref) ?? one) : one,
      );
      groups.get(tag).push({
        path,
        method,
        operation,
        parameters,
        anchor: `${method}-${path.replace(/[^A-Za-z0-9]+/g, "-").replace(/^-|-$/g, "")}`,
      });
    }
  }
  return groups;
}

/** A curl command for the request. */
export function curlOf(document, { path, method, operation, parameters }, origin) {
  const filled = path.replace(/\{\*?(\w+)\}/g, (_, name) => `$${name.toUpperCase()}`);
  const query = parameters
    .filter((one) => one.in === "query" && one.required)
    .map((one) => `${one.name}=${encodeURIComponent(String(exampleOf(document, one.schema)))}`);
  const address = `${origin}${filled}${query.length > 0 ? `?${query.join("&")}` : ""}`;
  const parts = ["curl"];
  const answers = Object.values(operation.responses ?? {}).flatMap((answer) =>
    Object.keys(answer.content ?? {}),
  );
  if (answers.includes("text/event-stream")) parts.push("-N");
  if (method !== "get") parts.push(`-X ${method.toUpperCase()}`);
  const body = operation.requestBody?.content?.["application/json"];
  if (body) {
    const value = body.example ?? exampleOf(document, body.schema);
    parts.push(
      "-H 'Content-Type: application/json'",
      `-d '${JSON.stringify(value).replaceAll("'", "'\\''")}'`,
    );
  }
  parts.push(/[$?&]/.test(address) ? `"${address}"` : address);
  return parts.join(" ");
}
