//! One backend in detail, as text: each protection and each limit.

use std::fmt::Write;

use sandbox::doctor::Diagnosis;

pub(super) fn render(found: &Diagnosis) -> String {
    let mut text = String::new();
    let verdict = if found.works {
        "works: verified by starting a sandbox"
    } else {
        "does not work"
    };
    line(&mut text, format_args!("{:<7} {verdict}", found.backend));
    if let (Some(start), Some(exec)) = (found.start, found.exec) {
        let (start, exec) = (start.as_secs_f64() * 1e3, exec.as_secs_f64() * 1e3);
        line(
            &mut text,
            format_args!(
                "        start and first command {start:.1} ms, a further command {exec:.2} ms"
            ),
        );
    }
    if let Some(problem) = &found.problem {
        line(&mut text, format_args!("        {problem}"));
    }
    if let Some(hint) = &found.hint {
        line(&mut text, format_args!("hint:   {hint}"));
    }
    if !found.protections.is_empty() {
        line(
            &mut text,
            format_args!("\nprotection            holds  seen inside"),
        );
    }
    for protection in &found.protections {
        let holds = if protection.holds { "yes" } else { "NO" };
        line(
            &mut text,
            format_args!("{:<21} {holds:<6} {}", protection.name, protection.evidence),
        );
    }
    if !found.limits.is_empty() {
        line(
            &mut text,
            format_args!("\nlimit                 default   enforced by"),
        );
    }
    for limit in &found.limits {
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
    text
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{arguments}");
}
