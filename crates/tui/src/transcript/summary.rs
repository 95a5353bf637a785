//! A call in one line: what it is about to do, in the words of the tools themselves, so that a
//! page made from stored events reads like one that was lived through. Pure.

use serde_json::{Map, Value};

use crate::text::clean;

/// In characters.
const MAX_SUMMARY_CHARS: usize = 400;

/// A command up to this length is seen whole in its summary.
const MAX_WHOLE_COMMAND_BYTES: usize = 60;

/// Arguments that say what a call is about, of tools that are not known here.
const SUMMARY_ARGUMENTS: [&str; 8] = [
    "command", "path", "pattern", "query", "url", "name", "title", "text",
];

pub(super) fn of(name: &str, input: &Value) -> String {
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    let number = |key: &str| input.get(key).and_then(Value::as_u64);
    let path = text("path");
    let summary = match (name, path) {
        ("bash", _) => format!("$ {}", text("command").unwrap_or("…")),
        ("bash_job", _) => job(&number("job"), text("action"), text("text")),
        ("read_file", Some(path)) => match number("offset") {
            Some(offset) => format!("read {path} from line {offset}"),
            None => format!("read {path}"),
        },
        ("write_file", Some(path)) => format!("write {path}"),
        ("edit_file", Some(path)) => format!("edit {path}"),
        ("list_files", path) => format!("list {}", path.unwrap_or(".")),
        ("search_files", path) => {
            let globs = texts(input.get("glob")).join(" ");
            let what = text("pattern").unwrap_or(&globs);
            match path {
                Some(path) => format!("search {what} in {path}"),
                None => format!("search {what}"),
            }
        }
        ("plan", _) => plan(input.get("steps").and_then(Value::as_array)),
        _ => match SUMMARY_ARGUMENTS.iter().find_map(|key| text(key)) {
            Some(argument) => format!("{name} {argument}"),
            None => name.to_owned(),
        },
    };
    one_line(&summary)
}

/// Of an input whose beginning is known, as JSON text.
pub(super) fn of_part(name: &str, start: &str) -> String {
    let known: Map<String, Value> = SUMMARY_ARGUMENTS
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), text_after(start, key)?.into())))
        .collect();
    match name {
        // Its steps come one after the other.
        "plan" => "plan".to_owned(),
        _ => of(name, &Value::Object(known)),
    }
}

/// Nothing of the command is lost in its summary.
pub(super) fn is_whole(command: &str) -> bool {
    command.len() <= MAX_WHOLE_COMMAND_BYTES && !command.trim_end().contains('\n')
}

/// Text as one line.
pub(super) fn one_line(text: &str) -> String {
    let text = clean(text);
    let mut line = String::new();
    for (at, letter) in text.trim().chars().enumerate() {
        if at == MAX_SUMMARY_CHARS {
            line.push('…');
            break;
        }
        let is_plain = !matches!(letter, '\n' | '\t');
        line.push(if is_plain { letter } else { ' ' });
    }
    line
}

fn job(job: &Option<u64>, action: Option<&str>, text: Option<&str>) -> String {
    let job = job.map_or("…".to_owned(), |job| job.to_string());
    match action {
        Some("write") => format!("write to job {job}: {}", text.unwrap_or_default()),
        Some("kill") => format!("kill job {job}"),
        _ => format!("look at job {job}"),
    }
}

fn plan(steps: Option<&Vec<Value>>) -> String {
    let steps = steps.map_or(&[] as &[Value], Vec::as_slice);
    let is_done = |step: &&Value| step.get("status").is_some_and(|status| status == "done");
    let done = steps.iter().filter(is_done).count();
    format!("plan, {done} of {} done", steps.len())
}

fn texts(list: Option<&Value>) -> Vec<&str> {
    let list = list.and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// The text that follows a key, as far as it is there.
fn text_after(json: &str, key: &str) -> Option<String> {
    let (_, rest) = json.split_once(&format!("\"{key}\""))?;
    let rest = rest.trim_start().strip_prefix(':')?;
    let rest = rest.trim_start().strip_prefix('"')?;
    let mut text = String::new();
    let mut letters = rest.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => match letters.next() {
                Some('n' | 't' | 'r' | 'u' | 'b' | 'f') => text.push(' '),
                Some(other) => text.push(other),
                None => break,
            },
            letter => text.push(letter),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_in_one_line() {
        for (name, input, expect) in [
            ("bash", json!({"command": "ls\n-l\u{1b}[2J"}), "$ ls -l"),
            (
                "bash_job",
                json!({"job": 3, "action": "kill"}),
                "kill job 3",
            ),
            (
                "read_file",
                json!({"path": "a", "offset": 7}),
                "read a from line 7",
            ),
            (
                "write_file",
                json!({"path": "a.py", "content": "x"}),
                "write a.py",
            ),
            ("edit_file", json!({"path": "a.py"}), "edit a.py"),
            ("list_files", json!({}), "list ."),
            (
                "search_files",
                json!({"glob": ["*.rs", "!x"]}),
                "search *.rs !x",
            ),
            (
                "search_files",
                json!({"pattern": "fn", "path": "src"}),
                "search fn in src",
            ),
            (
                "plan",
                json!({"steps": [{"title": "a", "status": "done"}, {"title": "b"}]}),
                "plan, 1 of 2 done",
            ),
            ("fetch", json!({"url": "http://x"}), "fetch http://x"),
            ("fetch", json!(7), "fetch"),
            ("write_file", json!({"path": 7}), "write_file"),
        ] {
            assert_eq!(of(name, &input), expect);
        }
    }

    #[test]
    fn calls_as_they_are_written() {
        for (name, start, expect) in [
            ("write_file", "", "write_file"),
            ("write_file", r#"{"pa"#, "write_file"),
            ("write_file", r#"{"path": "hel"#, "write hel"),
            (
                "write_file",
                r#"{"path":"a\"b","content":"\"path\": "#,
                "write a\"b",
            ),
            ("bash", r#"{"command":"ls\n"#, "$ ls"),
            ("bash", r#"{"command":"ls\"#, "$ ls"),
            ("plan", r#"{"steps":[{"title":"x"#, "plan"),
        ] {
            assert_eq!(of_part(name, start), expect, "{start}");
        }
    }
}
