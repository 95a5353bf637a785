//! `hotcell doctor`: what protects a sandbox on this machine. With `--probe` it starts one with every
//! backend, prints a table, and stores the results for `auto`.

mod details;
mod table;

use std::io::Write;
use std::path::PathBuf;

use sandbox::doctor::{self, Diagnosis, ORDER};
use sandbox::{Backend, Choice, Proof, SandboxError, SandboxSpec};
use serde_json::{Value, json};

use self::table::Row;
use super::{print, runtime, written};
use crate::args::Doctor;
use crate::complaint::{Complaint, FAILED};
use crate::render::clean;
use crate::settings::{Overrides, Settings, provisions};

pub(crate) fn run(asked: &Doctor) -> Result<u8, Complaint> {
    let settings = Settings::read(&Overrides::default().store(&asked.store))?;
    let scratch = Scratch::make()?;
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
fn examine(asked: &Doctor, spec: &SandboxSpec) -> Result<u8, Complaint> {
    let native = SandboxSpec {
        backend: Backend::Native,
        ..spec.clone()
    };
    let native = runtime()?.block_on(doctor::examine(native));
    let known = doctor::known(&spec.provisions);
    let works = native.works || known.iter().any(|proof| proof.works);
    let taken = taken(spec, works);
    if asked.json {
        tell_json(&taken, &[native], &known)?;
        return Ok(u8::from(!works));
    }
    let mut text = details::render(&native);
    text.push('\n');
    text.push_str(&table::as_of(&known));
    text.push_str(table::HEAD);
    let rows: Vec<Row> = ORDER
        .into_iter()
        .map(|backend| match backend {
            Backend::Native => Row::examined(&native),
            _ => Row::known(backend, &known),
        })
        .collect();
    for row in &rows {
        text.push_str(&row.line());
    }
    text.push_str(&conclusion(&rows, &taken));
    print(&clean(&text))?;
    Ok(u8::from(!works))
}

/// All backends, one after the other, so that they do not disturb each other's timings.
fn probe(asked: &Doctor, spec: &SandboxSpec) -> Result<u8, Complaint> {
    let runtime = runtime()?;
    let mut found = Vec::new();
    let mut rows = Vec::new();
    if !asked.json {
        print(table::HEAD)?;
    }
    for backend in ORDER {
        let diagnosis = runtime.block_on(doctor::probe(spec, backend));
        let row = Row::examined(&diagnosis);
        if !asked.json {
            print(&clean(&row.line()))?;
        }
        rows.push(row);
        found.push(diagnosis);
    }
    let works = found.iter().any(|diagnosis| diagnosis.works);
    let taken = taken(spec, works);
    if asked.json {
        tell_json(&taken, &found, &doctor::known(&spec.provisions))?
    } else {
        print(&clean(&conclusion(&rows, &taken)))?;
    }
    Ok(u8::from(!works))
}

/// What `auto` selects, if any backend works.
type Taken = Option<Result<Choice, SandboxError>>;

fn taken(spec: &SandboxSpec, works: bool) -> Taken {
    works.then(|| doctor::would_take(spec))
}

/// The text below the table.
fn conclusion(rows: &[Row], taken: &Taken) -> String {
    let mut text = String::new();
    for row in rows {
        text.push_str(&row.problem());
    }
    text.push('\n');
    for backend in ORDER {
        if let Some(unproven) = doctor::unproven(backend) {
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

fn tell_json(taken: &Taken, found: &[Diagnosis], known: &[Proof]) -> Result<(), Complaint> {
    let choice = match taken {
        Some(Ok(choice)) => Some(choice),
        _ => None,
    };
    let unproven: serde_json::Map<String, Value> = ORDER
        .into_iter()
        .filter_map(|backend| Some((backend.name().to_owned(), doctor::unproven(backend)?.into())))
        .collect();
    let text = serde_json::to_string_pretty(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "auto": choice.map(|choice| choice.backend),
        "reason": choice.map(|choice| &choice.reason),
        "backends": found,
        "proofs": known,
        "not_run_on_real_hardware": unproven,
    }));
    let text = text.map_err(|error| Complaint::new(FAILED, error))?;
    written(writeln!(std::io::stdout(), "{text}")).map(drop)
}

/// A temporary workspace for the check, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn make() -> Result<Self, Complaint> {
        // The real path: a sandbox accepts no other.
        let parent = std::env::temp_dir();
        let parent = parent.canonicalize().unwrap_or(parent);
        let folder = parent.join(format!("hotcell-doctor-{}", std::process::id()));
        std::fs::create_dir(&folder).map_err(|error| {
            Complaint::new(
                FAILED,
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

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
