//! `hotcell doctor`: what protects a sandbox on this machine. With `--probe` it starts one with every
//! backend, prints a table, and stores the results for `auto`.

mod details;
mod table;

use std::io::Write;
use std::path::PathBuf;

use sandbox::doctor::{self, BACKENDS_BY_STRENGTH, Diagnosis};
use sandbox::{Backend, BackendChoice, ProbeResult, SandboxError, SandboxSpec};
use serde_json::{Value, json};

use self::table::BackendRow;
use super::{print, runtime, written};
use crate::args::DoctorFlags;
use crate::cli_error::{CliError, SANDBOX_FAILED};
use crate::render::clean;
use crate::settings::{SettingOverrides, Settings, provisions};

pub(crate) fn run(asked: &DoctorFlags) -> Result<u8, CliError> {
    let settings = Settings::read(&SettingOverrides::default().store(&asked.store))?;
    let scratch = ScratchWorkspace::make()?;
    let spec = SandboxSpec {
        provisions: provisions(&settings, Backend::Auto)?.into(),
        ..SandboxSpec::new(&scratch.0)
    };
    if asked.probe {
        probe(asked, &spec)
    } else {
        examine(asked, &spec)
    }
}

/// The native backend in detail, and what is known of the others.
fn examine(asked: &DoctorFlags, spec: &SandboxSpec) -> Result<u8, CliError> {
    let native = SandboxSpec {
        backend: Backend::Native,
        ..spec.clone()
    };
    let native = runtime()?.block_on(doctor::examine(native));
    let known = doctor::stored_results(&spec.provisions);
    let works = native.works || known.iter().any(|proof| proof.works);
    let taken = taken(spec, works);
    if asked.json {
        print_json(&taken, &[native], &known)?;
        return Ok(u8::from(!works));
    }
    let mut text = details::render(&native);
    text.push('\n');
    text.push_str(&table::as_of(&known));
    text.push_str(table::TABLE_HEADER);
    let rows: Vec<BackendRow> = BACKENDS_BY_STRENGTH
        .into_iter()
        .map(|backend| match backend {
            Backend::Native => BackendRow::examined(&native),
            _ => BackendRow::known(backend, &known),
        })
        .collect();
    for row in &rows {
        text.push_str(&row.line());
    }
    text.push_str(&notes_and_choice(&rows, &taken));
    print(&clean(&text))?;
    Ok(u8::from(!works))
}

/// All backends, one after the other, so that they do not disturb each other's timings.
fn probe(asked: &DoctorFlags, spec: &SandboxSpec) -> Result<u8, CliError> {
    let runtime = runtime()?;
    let mut found = Vec::new();
    let mut rows = Vec::new();
    if !asked.json {
        print(table::TABLE_HEADER)?;
    }
    for backend in BACKENDS_BY_STRENGTH {
        let diagnosis = runtime.block_on(doctor::probe(spec, backend));
        let row = BackendRow::examined(&diagnosis);
        if !asked.json {
            print(&clean(&row.line()))?;
        }
        rows.push(row);
        found.push(diagnosis);
    }
    let works = found.iter().any(|diagnosis| diagnosis.works);
    let taken = taken(spec, works);
    if asked.json {
        print_json(&taken, &found, &doctor::stored_results(&spec.provisions))?
    } else {
        print(&clean(&notes_and_choice(&rows, &taken)))?;
    }
    Ok(u8::from(!works))
}

/// What `auto` selects, if any backend works.
type AutoChoice = Option<Result<BackendChoice, SandboxError>>;

fn taken(spec: &SandboxSpec, works: bool) -> AutoChoice {
    works.then(|| doctor::auto_choice(spec))
}

/// The text below the table.
fn notes_and_choice(rows: &[BackendRow], taken: &AutoChoice) -> String {
    let mut text = String::new();
    for row in rows {
        text.push_str(&row.problem());
    }
    text.push('\n');
    for backend in BACKENDS_BY_STRENGTH {
        if let Some(unproven) = doctor::untested_parts(backend) {
            text.push_str(&format!("note:   {backend}: {unproven}\n"));
        }
    }
    match taken {
        Some(Ok(choice)) => text.push_str(&format!(
            "\nauto    selects {}: {}\n",
            choice.backend, choice.reason
        )),
        Some(Err(error)) => text.push_str(&format!("\nauto    selects nothing: {error}\n")),
        None => text.push_str("\nauto    selects nothing: no backend works here\n"),
    }
    text.push_str("none    no protection at all; never chosen by `auto`\n");
    text
}

fn print_json(
    taken: &AutoChoice,
    found: &[Diagnosis],
    known: &[ProbeResult],
) -> Result<(), CliError> {
    let choice = match taken {
        Some(Ok(choice)) => Some(choice),
        _ => None,
    };
    let unproven: serde_json::Map<String, Value> = BACKENDS_BY_STRENGTH
        .into_iter()
        .filter_map(|backend| {
            Some((
                backend.name().to_owned(),
                doctor::untested_parts(backend)?.into(),
            ))
        })
        .collect();
    let text = serde_json::to_string_pretty(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "auto": choice.map(|choice| choice.backend),
        "reason": choice.map(|choice| &choice.reason),
        "backends": found,
        "proofs": known,
        "not_run_on_real_hardware": unproven,
    }));
    let text = text.map_err(|error| CliError::new(SANDBOX_FAILED, error))?;
    written(writeln!(std::io::stdout(), "{text}")).map(drop)
}

/// A temporary workspace for the check, removed when dropped.
struct ScratchWorkspace(PathBuf);

impl ScratchWorkspace {
    fn make() -> Result<Self, CliError> {
        // The real path: a sandbox accepts no other.
        let parent = std::env::temp_dir();
        let parent = parent.canonicalize().unwrap_or(parent);
        let folder = parent.join(format!("hotcell-doctor-{}", std::process::id()));
        std::fs::create_dir(&folder).map_err(|error| {
            CliError::new(
                SANDBOX_FAILED,
                format!("cannot create `{}`: {error}", folder.display()),
            )
        })?;
        // Owned by an ordinary user, as a workspace is: not every file system can map root's files.
        if nix::unistd::geteuid().is_root() {
            let _ = std::os::unix::fs::chown(&folder, Some(65534), Some(65534));
        }
        Ok(Self(folder))
    }
}

impl Drop for ScratchWorkspace {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
