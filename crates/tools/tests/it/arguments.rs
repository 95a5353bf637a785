//! Tool definitions, and the errors for invalid arguments.

use serde_json::{Value, json};
use tools::{ToolAccess, ToolError, ToolSet};

use crate::fixture::{ToolFixture, run_test};

#[test]
fn definitions_are_short_and_closed() {
    let tools = ToolSet::standard();
    let names = "bash bash_job read_file write_file edit_file list_files search_files plan";
    assert_eq!(tools.names().collect::<Vec<_>>().join(" "), names);
    let definitions = tools.definitions();
    let json = serde_json::to_string(&definitions).unwrap();
    assert!(json.len() < 5 * 1024, "{} bytes: {json}", json.len());
    for noise in [
        "$schema",
        "$ref",
        // A schema title; a property of that name is an object.
        "\"title\":\"",
        "\"format\"",
        "null",
        "anyOf",
        "\\n",
    ] {
        assert!(!json.contains(noise), "{noise}: {json}");
    }
    for definition in &definitions {
        assert!(!definition.description.is_empty());
        assert_closed(&definition.input_schema);
        let required = &definition.input_schema["required"];
        assert!(required.is_null() || required.as_array().is_some_and(|all| !all.is_empty()));
    }
    let edit = &definitions[4].input_schema;
    assert_eq!(edit["required"], json!(["path", "edits"]));
    assert_eq!(
        edit["properties"]["edits"]["items"]["required"],
        json!(["old", "new"])
    );
    let action = &definitions[1].input_schema["properties"]["action"];
    assert_eq!(action["enum"], json!(["poll", "write", "kill"]));
    let timeout = &definitions[0].input_schema["properties"]["timeout"];
    assert_eq!(timeout["type"], "integer");
}

/// Checks that no object accepts unknown fields.
fn assert_closed(schema: &Value) {
    if let Some(properties) = schema["properties"].as_object() {
        assert_eq!(schema["additionalProperties"], false, "{schema}");
        properties.values().for_each(assert_closed);
    }
    if schema["items"].is_object() {
        assert_closed(&schema["items"]);
    }
}

#[test]
fn read_only_tools_are_marked() {
    let tools = ToolSet::standard();
    let reads = |name: &str| tools.find(name).unwrap().access() == ToolAccess::Reads;
    let found: Vec<&str> = tools.names().filter(|name| reads(name)).collect();
    assert_eq!(found, ["read_file", "list_files", "search_files", "plan"]);
}

/// Rules are matched against these, so they must be what the tool acts on.
#[test]
fn arguments_are_shown_as_the_tool_understands_them() {
    let tools = ToolSet::standard();
    let check = |tool: &str, input: Value, expect: Value| {
        let call = tools.find(tool).unwrap().prepare(&input).unwrap();
        assert_eq!(call.arguments(), &expect, "{input}");
    };
    let command = json!({"command": "git push"});
    check("bash", command.clone(), command.clone());
    check("bash", json!(format!(" {command} ")), command.clone());
    let padded = json!({"command": "git push", "timeout": null});
    check("bash", padded, command);
    let poll = |job: Value| json!({"job": job, "action": "poll"});
    for job in [json!(2), json!(" 2 "), json!(2.0), json!(1.5)] {
        check("bash_job", poll(job), poll(json!(2)));
    }
}

#[test]
fn summaries_are_one_readable_line() {
    let tools = ToolSet::standard();
    let check = |tool: &str, input: Value, expect: &str| {
        let call = tools.find(tool).unwrap().prepare(&input).unwrap();
        assert_eq!(call.summary().to_string(), expect, "{input}");
    };
    check("bash", json!({"command": "cargo test"}), "$ cargo test");
    check(
        "bash",
        json!({"command": "a\nb\u{1b}[31m\u{202e}c"}),
        "$ a b [31m c",
    );
    let step = |title: &str, status: &str| json!({"title": title, "status": status});
    check(
        "plan",
        json!({"steps": [step("read", "done"), step("write", "active"), step("test", "pending")]}),
        "plan 1 of 3 done: write",
    );
    let long = "x".repeat(5000);
    let summary = tools
        .find("bash")
        .unwrap()
        .prepare(&json!({"command": long}))
        .unwrap()
        .summary();
    assert!(
        summary.subject.ends_with('…') && summary.subject.chars().count() == 401,
        "{summary}"
    );
    check("read_file", json!({"path": "a b.rs"}), "read a b.rs");
    check(
        "read_file",
        json!({"path": "a", "offset": "7"}),
        "read a from line 7",
    );
    check(
        "write_file",
        json!({"path": "a\nb", "content": ""}),
        r"write $'a\nb'",
    );
    check("edit_file", json!({"path": "a", "edits": []}), "edit a");
    check("list_files", json!({}), "list .");
    check(
        "search_files",
        json!({"pattern": "x+", "path": "src"}),
        "search x+ in src",
    );
    check(
        "search_files",
        json!({"glob": ["*.rs", "!b"]}),
        "search *.rs !b",
    );
    check(
        "bash_job",
        json!({"job": 3, "action": "kill"}),
        "kill job 3",
    );
}

#[test]
fn wrong_arguments_are_explained() {
    run_test(async {
        let world = ToolFixture::new().await;
        let check = async |tool: &str, input: Value, says: &str| {
            let error = world.call(tool, input.clone()).await.unwrap_err();
            assert!(matches!(error, ToolError::Arguments { .. }), "{error:?}");
            let expect = format!("bad arguments for `{tool}`: {says}");
            assert_eq!(error.to_string(), expect, "{input}");
        };
        let fields = "`path`, `offset`, `limit`";
        check(
            "read_file",
            json!({}),
            &format!("missing field `path`: expected {fields}"),
        )
        .await;
        check(
            "read_file",
            json!({"path": null}),
            &format!("missing field `path`: expected {fields}"),
        )
        .await;
        check(
            "read_file",
            json!({"path": "a", "ofset": 1}),
            "unknown field `ofset`: did you mean `offset`?",
        )
        .await;
        check(
            "read_file",
            json!({"file_path": "a"}),
            "unknown field `file_path`: did you mean `path`?",
        )
        .await;
        check(
            "read_file",
            json!({"path": "a", "encoding": 1}),
            &format!("unknown field `encoding`: expected {fields}"),
        )
        .await;
        check(
            "read_file",
            json!({"path": 5}),
            "`path`: expected a string, got 5",
        )
        .await;
        check(
            "read_file",
            json!({"path": "a", "limit": "many"}),
            "`limit`: expected a whole number from 0 on, got \"many\"",
        )
        .await;
        check(
            "read_file",
            json!({"path": "a", "limit": -1}),
            "`limit`: expected a whole number from 0 on, got -1",
        )
        .await;
        check("read_file", json!(["a"]), "expected an object, got [\"a\"]").await;
        check("read_file", json!("a"), "expected an object, got \"a\"").await;
        check(
            "bash_job",
            json!({"job": 1, "action": "stop"}),
            "`action`: expected one of `poll`, `write`, `kill`, got `stop`",
        )
        .await;
        check(
            "edit_file",
            json!({"path": "a", "edits": [{"old": "x", "new": "y"}, {"old": "x"}]}),
            "missing field `edits[1].new`: expected `old`, `new`, `all`",
        )
        .await;
        check(
            "edit_file",
            json!({"path": "a", "edits": [{"old_string": "x", "new": "y"}]}),
            "unknown field `edits[0].old_string`: did you mean `old`?",
        )
        .await;
        check(
            "edit_file",
            json!({"path": "a", "edits": 5}),
            "`edits`: expected an array, got 5",
        )
        .await;
        check(
            "search_files",
            json!({}),
            "missing field `pattern`: expected that or `glob`",
        )
        .await;
        world.end().await;
    });
}

#[test]
fn harmless_mistakes_are_corrected() {
    run_test(async {
        let world = ToolFixture::new().await;
        world.put("a", "1\n2\n3\n");
        let check = async |tool: &str, input: Value, says: &str| {
            let text = world.call_text(tool, input.clone()).await;
            assert!(text.contains(says), "{input}: {text}");
        };
        check(
            "read_file",
            json!({"path": "a", "offset": "2", "limit": 1.0}),
            "    2\t2\n",
        )
        .await;
        check(
            "read_file",
            json!({"path": "a", "offset": null}),
            "    1\t1\n",
        )
        .await;
        check("read_file", json!(r#"{"path": "a"}"#), "    1\t1\n").await;
        check(
            "bash",
            json!({"command": "echo hi", "timeout": 0.5, "background": "false"}),
            "hi\n",
        )
        .await;
        check(
            "bash",
            json!({"command": "echo hi", "timeout": 120_000}),
            "hi\n",
        )
        .await;
        check("search_files", json!({"glob": "a"}), "a\n").await;
        check("search_files", json!({"glob": "[\"a\"]"}), "a\n").await;
        let edits = r#"[{"old": "2", "new": "two"}]"#;
        check("edit_file", json!({"path": "a", "edits": edits}), "+two").await;
        check(
            "edit_file",
            json!({"path": "a", "edits": {"old": "3", "new": "three"}}),
            "+three",
        )
        .await;
        // Strings stay strings, even if they look like another type.
        check(
            "write_file",
            json!({"path": "n", "content": "{\"a\": 1}"}),
            "created `n`",
        )
        .await;
        assert_eq!(world.get("n"), "{\"a\": 1}");
        world.end().await;
    });
}
