//! The JSON Schema of a tool's arguments, without keys that only cost tokens.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// Keys that a model does not need: schema dialect, Rust type names, integer widths.
const DROPPED_KEYS: [&str; 5] = ["$schema", "title", "format", "minimum", "default"];

/// The schema of an argument struct. The doc comments of its fields are the descriptions.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    if let Value::Object(fields) = &mut schema {
        fields.remove("description");
    }
    simplify(&mut schema);
    schema
}

fn simplify(schema: &mut Value) {
    let Value::Object(fields) = schema else {
        return;
    };
    for name in DROPPED_KEYS {
        fields.remove(name);
    }
    drop_null(fields);
    if let Some(Value::String(text)) = fields.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(simplify);
        fields.insert("additionalProperties".into(), false.into());
    }
    if let Some(items) = fields.get_mut("items") {
        simplify(items);
    }
}

/// Removes `null` as an option: an optional field can be left out instead.
fn drop_null(fields: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = fields.get_mut("type") {
        types.retain(|one| one != "null");
        if let [only] = types.as_mut_slice() {
            let only = only.take();
            fields.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(values)) = fields.get_mut("enum") {
        values.retain(|one| !one.is_null());
    }
    if let Some(Value::Array(choices)) = fields.get_mut("anyOf") {
        choices.retain(|one| one["type"] != "null");
        if let [Value::Object(only)] = choices.as_mut_slice() {
            let only = std::mem::take(only);
            fields.remove("anyOf");
            for (name, value) in only {
                // The field's own keys take precedence over those of its type.
                fields.entry(name).or_insert(value);
            }
        }
    }
}
