//! Checks a model's JSON against a tool's schema. Harmless mistakes are corrected; for others the
//! error message tells the model how to correct them.

use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

use crate::tool::ToolError;

/// Parses arguments according to the schema. Returns them as JSON too, as they were understood.
pub(crate) fn parse<T: DeserializeOwned>(
    tool: &str,
    schema: &Value,
    input: Value,
) -> Result<(Value, T), ToolError> {
    let refuse = |why| ToolError::Arguments {
        tool: tool.to_owned(),
        why,
    };
    let input = conform(schema, input, "").map_err(refuse)?;
    match T::deserialize(&input) {
        Ok(arguments) => Ok((input, arguments)),
        Err(error) => Err(refuse(error.to_string())),
    }
}

/// The value converted to what the schema requires, or where and why it does not match.
fn conform(schema: &Value, value: Value, path: &str) -> Result<Value, String> {
    let expected = schema["type"].as_str().unwrap_or_default();
    let value = reparse(expected, value);
    let converted = match (expected, value) {
        ("object", Value::Object(fields)) => return coerce_fields(schema, fields, path),
        ("array", Value::Array(items)) => {
            let items = items.into_iter().enumerate();
            let items =
                items.map(|(at, item)| conform(&schema["items"], item, &format!("{path}[{at}]")));
            return Ok(Value::Array(items.collect::<Result<_, _>>()?));
        }
        // A single item where a list is expected.
        ("array", single @ (Value::String(_) | Value::Object(_))) => {
            let item = conform(&schema["items"], single, &format!("{path}[0]"))?;
            return Ok(Value::Array(vec![item]));
        }
        ("string", Value::String(text)) => match schema["enum"].as_array() {
            Some(choices) if !choices.iter().any(|choice| choice == &text) => {
                let choices = choices.iter().filter_map(Value::as_str);
                return Err(at_path(
                    path,
                    &format!("expected one of {}, got `{text}`", names(choices)),
                ));
            }
            _ => Ok(Value::String(text)),
        },
        ("integer", Value::Number(number)) => whole(&number).ok_or(Value::Number(number)),
        ("boolean", Value::Bool(value)) => Ok(Value::Bool(value)),
        ("", value) => Ok(value),
        (_, value) => Err(value),
    };
    converted.map_err(|value| {
        let expected = match expected {
            "object" | "array" => format!("an {expected}"),
            "integer" => "a whole number from 0 on".to_owned(),
            _ => format!("a {expected}"),
        };
        at_path(
            path,
            &format!("expected {expected}, got {}", describe(&value)),
        )
    })
}

fn coerce_fields(schema: &Value, fields: Map<String, Value>, path: &str) -> Result<Value, String> {
    let empty = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    let known = || properties.keys().map(String::as_str);
    let required = schema["required"].as_array().into_iter().flatten();
    let required: Vec<&str> = required.filter_map(Value::as_str).collect();
    let below = |name: &str| match path {
        "" => name.to_owned(),
        _ => format!("{path}.{name}"),
    };
    let mut result = Map::new();
    for (name, value) in fields {
        let Some(schema) = properties.get(&name) else {
            let hint = match similar_name(&name, known()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("expected {}", names(known())),
            };
            return Err(format!("unknown field `{}`: {hint}", below(&name)));
        };
        if !value.is_null() {
            let value = conform(schema, value, &below(&name))?;
            result.insert(name, value);
        }
    }
    match required.iter().find(|name| !result.contains_key(**name)) {
        Some(missing) => Err(format!(
            "missing field `{}`: expected {}",
            below(missing),
            names(known())
        )),
        None => Ok(Value::Object(result)),
    }
}

/// Parses a string that contains the JSON of the expected type.
fn reparse(expected: &str, value: Value) -> Value {
    let Value::String(text) = &value else {
        return value;
    };
    let parsed: Option<Value> = serde_json::from_str(text.trim()).ok();
    match (expected, parsed) {
        ("object", Some(parsed @ Value::Object(_)))
        | ("array", Some(parsed @ Value::Array(_)))
        | ("integer", Some(parsed @ Value::Number(_)))
        | ("boolean", Some(parsed @ Value::Bool(_))) => parsed,
        ("boolean", None) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" => Value::Bool(true),
            "false" | "no" => Value::Bool(false),
            _ => value,
        },
        _ => value,
    }
}

/// Rounds a fraction up: half a second must not become zero.
fn whole(number: &Number) -> Option<Value> {
    let whole = number.as_u64().or_else(|| {
        let number = number.as_f64()?.ceil();
        (0.0..=9e15).contains(&number).then_some(number as u64)
    });
    whole.map(Value::from)
}

fn at_path(path: &str, what: &str) -> String {
    match path {
        "" => what.to_owned(),
        _ => format!("`{path}`: {what}"),
    }
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

fn describe(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The known name that was probably meant.
fn similar_name<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |name: &str| name.to_ascii_lowercase().replace(['-', '_'], "");
    let name = plain(name);
    known
        .map(|one| (edit_distance(&name, &plain(one)), one))
        .filter(|(distance, one)| {
            let one = plain(one);
            *distance <= 2.min(one.len() / 2) || name.contains(&one) || one.contains(&name)
        })
        .min()
        .map(|(_, one)| one)
}

/// Levenshtein distance. Names are short, so the quadratic cost does not matter.
fn edit_distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, left) in one.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}
