//! `hotcell doctor`: what protects a sandbox on this machine.

use std::fmt::Write;

use sandbox::doctor::{Diagnosis, examine};
use sandbox::{Backend, SandboxSpec};

use super::runtime;
use crate::args::Doctor;
use crate::complaint::{Complaint, FAILED};

#[allow(clippy::print_stdout)]
pub(crate) fn run(doctor: &Doctor) -> Result<u8, Complaint> {
    let scratch = Scratch::make()?;
    let mut spec = SandboxSpec::new(&scratch.0);
    spec.backend = Backend::Native;
    let native = runtime()?.block_on(examine(spec));
    let works = native.works;
    if doctor.json {
        let text = serde_json::to_string_pretty(&serde_json::json!({
            "version": env!("CARGO_PKG_VERSION"),
            "auto": works.then_some("native"),
            "backends": [native],
        }));
        println!("{}", text.map_err(|error| Complaint::new(FAILED, error))?);
    } else {
        print!("{}", render(&native));
    }
    Ok(u8::from(!works))
}

/// A workspace for the examination, gone afterwards.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn make() -> Result<Self, Complaint> {
        let folder = std::env::temp_dir().join(format!("hotcell-doctor-{}", std::process::id()));
        std::fs::create_dir(&folder).map_err(|error| {
            Complaint::new(
                FAILED,
                format!("cannot make `{}`: {error}", folder.display()),
            )
        })?;
        // Of an ordinary user, as a workspace is: not every file system can map root's.
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

/// For people.
fn render(native: &Diagnosis) -> String {
    let mut text = String::new();
    let verdict = match native.works {
        true => "works: seen by starting a sandbox",
        false => "does not work",
    };
    line(&mut text, format_args!("native  {verdict}"));
    if let (Some(start), Some(exec)) = (native.start, native.exec) {
        let (start, exec) = (start.as_secs_f64() * 1e3, exec.as_secs_f64() * 1e3);
        line(
            &mut text,
            format_args!(
                "        start and first command {start:.1} ms, a further command {exec:.2} ms"
            ),
        );
    }
    if let Some(problem) = &native.problem {
        line(&mut text, format_args!("        {problem}"));
    }
    if let Some(hint) = &native.hint {
        line(&mut text, format_args!("hint:   {hint}"));
    }
    if !native.protections.is_empty() {
        line(
            &mut text,
            format_args!("\nprotection            holds  seen inside"),
        );
    }
    for protection in &native.protections {
        let holds = if protection.holds { "yes" } else { "NO" };
        line(
            &mut text,
            format_args!("{:<21} {holds:<6} {}", protection.name, protection.evidence),
        );
    }
    if !native.limits.is_empty() {
        line(
            &mut text,
            format_args!("\nlimit                 default   enforced by"),
        );
    }
    for limit in &native.limits {
        let caveat = limit
            .caveat
            .as_ref()
            .map(|caveat| format!(" ({caveat})"))
            .unwrap_or_default();
        line(
            &mut text,
            format_args!(
                "{:<21} {:<9} {}{caveat}",
                limit.limit.name(),
                limit.value,
                limit.enforcer
            ),
        );
    }
    line(
        &mut text,
        format_args!("\nnone    no protection at all; never chosen by `auto`"),
    );
    text
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{arguments}");
}
