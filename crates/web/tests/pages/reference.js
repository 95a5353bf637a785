// The reference page: schemas that refer to each other, and commands to copy.

import { curlOf, exampleOf, fieldsOf, operationsByTag, typeWords } from "/assets/docs/schema.js";
import { equal, test } from "./check.js";

const DOCUMENT = {
  paths: {
    "/jobs/{id}": {
      parameters: [{ name: "id", in: "path", required: true, schema: { type: "string" } }],
      get: { tags: ["jobs"], responses: { 200: { content: { "text/event-stream": {} } } } },
    },
    "/jobs": {
      post: {
        tags: ["jobs"],
        requestBody: {
          content: { "application/json": { schema: { $ref: "#/components/schemas/Request" } } },
        },
        responses: {},
      },
      trace: {},
    },
  },
  components: {
    schemas: {
      Request: {
        type: "object",
        required: ["task"],
        properties: {
          task: { type: "string", example: 'it\'s "x"' },
          next: { $ref: "#/components/schemas/Request" },
        },
      },
      Endless: {
        type: "object",
        required: ["next"],
        properties: { next: { $ref: "#/components/schemas/Endless" } },
      },
      Whole: {
        allOf: [
          { $ref: "#/components/schemas/Request" },
          { properties: { more: { type: ["integer", "null"] } } },
        ],
      },
      Loop: { $ref: "#/components/schemas/Loop" },
    },
  },
};
const schema = (name) => ({ $ref: `#/components/schemas/${name}` });

test("types in words", () => {
  for (const [one, wanted] of [
    [schema("Request"), "Request"],
    [{ type: "array", items: schema("Request") }, "Request[]"],
    [{ type: ["string", "null"], format: "uuid" }, "string | null (uuid)"],
    [{ enum: ["a", "b"] }, '"a" | "b"'],
    [{ oneOf: [{ type: "null" }, schema("Request")] }, "null | Request"],
    [true, "anything"],
  ])
    equal(typeWords(one), wanted);
});

test("fields and examples, also of what refers to itself", () => {
  equal(
    fieldsOf(DOCUMENT, schema("Whole")).map(({ name }) => name),
    ["task", "next", "more"],
  );
  equal(exampleOf(DOCUMENT, schema("Request")), { task: 'it\'s "x"' });
  equal(typeof exampleOf(DOCUMENT, schema("Endless")), "object");
  equal(fieldsOf(DOCUMENT, schema("Loop")), []);
});

test("operations with a command for each", () => {
  const operations = operationsByTag(DOCUMENT).get("jobs");
  equal(
    operations.map(({ method, anchor }) => [method, anchor]),
    [
      ["get", "get-jobs-id"],
      ["post", "post-jobs"],
    ],
  );
  equal(
    operations.map((one) => curlOf(DOCUMENT, one, "http://h")),
    [
      'curl -N "http://h/jobs/$ID"',
      "curl -X POST -H 'Content-Type: application/json' -d '{\"task\":\"it'\\''s \\\"x\\\"\"}' http://h/jobs",
    ],
  );
});
