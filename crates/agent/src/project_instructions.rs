//! The project's own instructions for agents, from AGENTS.md in the workspace. Read inside the sandbox,
//! so that no link there leads outside. Entry point: [`read_project_instructions`].

use sandbox::Sandbox;

/// Maximum bytes read.
const MAX_INSTRUCTIONS_BYTES: u64 = 32 * 1024;

/// The instructions, cut to the maximum length; empty if there are none.
pub(crate) async fn read_project_instructions(sandbox: &Sandbox) -> String {
    let read = sandbox.read_file("AGENTS.md", 0, Some(MAX_INSTRUCTIONS_BYTES));
    match read.await {
        Ok((metadata, content)) => {
            let mut instructions = String::from_utf8_lossy(&content).into_owned();
            if metadata.size > MAX_INSTRUCTIONS_BYTES {
                instructions.push_str("\n[truncated: read the file for the rest]");
            }
            instructions
        }
        Err(_) => String::new(),
    }
}
