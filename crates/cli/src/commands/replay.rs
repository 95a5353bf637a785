//! `hotcell replay`: runs the recorded tool calls of a session again, in a new sandbox on an empty
//! folder, and reports where the results differ.

use agent::ReplayedCall;
use sandbox::SandboxSpec;
use serde_json::json;
use tools::ToolSet;

use super::run_command::{INTERRUPTED, TASK_FAILED};
use super::sessions::open;
use super::{print, runtime, written};
use crate::args::ReplayFlags;
use crate::cli_error::CliError;
use crate::render::{clean, first_line, write_line};

pub(crate) fn run(replay: &ReplayFlags) -> Result<u8, CliError> {
    let folder = tempfile::tempdir().map_err(|error| {
        CliError::new(
            TASK_FAILED,
            format!("cannot create a folder to replay in: {error}"),
        )
    })?;
    let workspace = std::fs::canonicalize(folder.path()).unwrap_or_else(|_| folder.path().into());
    let (mut calls, mut differ) = (0, 0);
    let mut outcome = Ok(0);
    let is_whole = runtime()?.block_on(async {
        let store = open(&replay.name.store).await?;
        let session = store.find(&replay.name.session).await?;
        let events = store.events(&session).await?;
        let spec = SandboxSpec::new(workspace);
        let report = |replayed: ReplayedCall| {
            calls += 1;
            differ += u32::from(replayed.difference.is_some());
            if outcome.is_ok() {
                outcome = print_result(&replayed, replay.json);
            }
        };
        let tools = ToolSet::standard();
        tokio::select! {
            replayed = agent::replay(&store, &session, &events, &tools, spec, report) => {
                replayed?;
                Ok::<bool, CliError>(true)
            }
            // The sandbox ends when its last reference is dropped, and the folder is removed below.
            _ = tokio::signal::ctrl_c() => Ok(false),
        }
    })?;
    outcome?;
    if !is_whole {
        return Ok(INTERRUPTED);
    }
    if !replay.json {
        print(&format!("{calls} calls replayed, {differ} differ\n"))?;
    }
    Ok(if differ > 0 { TASK_FAILED } else { 0 })
}

fn print_result(replayed: &ReplayedCall, json: bool) -> Result<u8, CliError> {
    if json {
        let difference = replayed.difference.as_ref().map(
            |difference| json!({"recorded": difference.recorded, "replayed": difference.replayed}),
        );
        return written(write_line(&json!({
            "turn": replayed.turn,
            "call": replayed.call,
            "name": replayed.name,
            "same": replayed.difference.is_none(),
            "difference": difference,
        })));
    }
    let summary = first_line(&replayed.summary, 120);
    let Some(difference) = &replayed.difference else {
        return print(&format!("same     {summary}\n"));
    };
    let diff = similar::TextDiff::from_lines(&difference.recorded, &difference.replayed);
    let mut lines = format!("differs  {summary}\n");
    for change in diff.iter_all_changes() {
        let sign = match change.tag() {
            similar::ChangeTag::Equal => continue,
            similar::ChangeTag::Delete => '-',
            similar::ChangeTag::Insert => '+',
        };
        let line = clean(change.value());
        lines.push_str(&format!("         {sign} {}\n", line.trim_end()));
    }
    print(&lines)
}
