//! Prints the JSON Schema of events: `cargo run -p protocol --example schema > docs/events.schema.json`.

use std::io::Write;

fn main() -> std::io::Result<()> {
    let schema = serde_json::to_string_pretty(&protocol::schema())?;
    writeln!(std::io::stdout(), "{schema}")
}
