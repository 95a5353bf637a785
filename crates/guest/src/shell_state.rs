//! The state that a shell saves for the next one of its session, and the script that restores it.
//!
//! Contains only what a new shell does not have by itself, because every line costs the next command time.
//! Pure.

use std::path::PathBuf;

use link::request::ByteString;

/// Variables that bash sets itself. Every shell has its own values, and most of them are read-only. The same
/// holds for all names that begin with BASH.
const SHELL_VARIABLES: &[&[u8]] = &[
    b"COMP_WORDBREAKS",
    b"DIRSTACK",
    b"EPOCHREALTIME",
    b"EPOCHSECONDS",
    b"EUID",
    b"FUNCNAME",
    b"GROUPS",
    b"HISTCMD",
    b"HOSTNAME",
    b"HOSTTYPE",
    b"LINENO",
    b"MACHTYPE",
    b"OSTYPE",
    b"PIPESTATUS",
    b"PPID",
    b"RANDOM",
    b"SECONDS",
    b"SHELLOPTS",
    b"SHLVL",
    b"SRANDOM",
    b"UID",
    b"_",
    b"__hotcell_code",
    b"__hotcell_saved",
];

#[derive(Clone, Default)]
pub(crate) struct ShellState {
    pub(crate) cwd: Option<PathBuf>,
    /// A script that restores everything else.
    pub(crate) script: Vec<u8>,
}

impl ShellState {
    /// Parses the output of a shell's save function: its working folder and a script, or for bash four
    /// sections instead of the script, all separated by NUL. `None` if it is truncated.
    pub(crate) fn parse(left: &[u8]) -> Option<Self> {
        let parts: Vec<&[u8]> = left.split(|byte| *byte == 0).collect();
        let (cwd, script) = match parts[..] {
            [cwd, script] => (cwd, script.to_vec()),
            [cwd, options, modes, definitions, variables] => {
                (cwd, bash_script(options, modes, definitions, variables))
            }
            _ => return None,
        };
        let cwd = PathBuf::from(ByteString(cwd.to_vec()).into_os_string());
        Some(Self {
            cwd: cwd.is_absolute().then_some(cwd),
            script,
        })
    }
}

/// `options` are those of `shopt`, `modes` those of `set -o`, both separated by colons. The modes come last,
/// so that none of them (`set -e`) affects the rest of the script. `eval` splits words independently of IFS.
fn bash_script(options: &[u8], modes: &[u8], definitions: &[u8], variables: &[u8]) -> Vec<u8> {
    let (options, modes) = (
        String::from_utf8_lossy(options),
        String::from_utf8_lossy(modes),
    );
    let mut script = format!(
        "[ \"$BASHOPTS\" = '{options}' ] || {{\n\
         builtin eval \"builtin shopt -u ${{BASHOPTS//:/ }}\"\n\
         builtin shopt -s {}\n}}\n",
        options.replace(':', " ")
    )
    .into_bytes();
    script.extend_from_slice(definitions);
    for line in variables.split_inclusive(|byte| *byte == b'\n') {
        if !is_shell_variable(line.trim_ascii_end()) {
            script.extend_from_slice(line);
        }
    }
    let modes = format!(
        "[ \"$SHELLOPTS\" = '{modes}' ] || {{\n\
         builtin eval \"builtin set +o ${{SHELLOPTS//:/ +o }}\"\n\
         builtin set -o {}\n}}\n",
        modes.replace(':', " -o ")
    );
    script.extend_from_slice(modes.as_bytes());
    script
}

/// Whether a line is the complete declaration of a variable that bash sets itself. Older versions of bash
/// print long values on several lines.
fn is_shell_variable(line: &[u8]) -> bool {
    let declared = || {
        let rest = line.strip_prefix(b"declare -")?;
        let name = rest.iter().position(|byte| *byte == b' ')? + 1;
        Some(&rest[name..])
    };
    let Some(declared) = declared() else {
        return false;
    };
    let end = declared.iter().position(|byte| *byte == b'=');
    let (name, value) = match end {
        Some(end) => (&declared[..end], &declared[end + 1..]),
        None => (declared, &b""[..]),
    };
    let is_whole = match value {
        [] => true,
        [b'"', .., last] => *last == b'"' && !value.ends_with(b"\\\""),
        [b'$', b'\'', .., last] => *last == b'\'',
        [b'(', .., last] => *last == b')',
        _ => false,
    };
    is_whole && (name.starts_with(b"BASH") || SHELL_VARIABLES.contains(&name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn lines_of_the_shells_own() {
        let check = |line: &str, expect: bool| {
            assert_eq!(is_shell_variable(line.as_bytes()), expect, "{line}")
        };
        check("declare -ir UID=\"1000\"", true);
        check("declare -i RANDOM", true);
        check("declare -a BASH_LINENO=([0]=\"27\")", true);
        check("declare -- BASH_EXECUTION_STRING=$'\\nx'", true);
        // The first line of several.
        check("declare -- BASH_EXECUTION_STRING=\"", false);
        check("declare -- BASH_EXECUTION_STRING=\"say \\\"", false);
        check("declare -x PATH=\"/bin\"", false);
        check("declare -- UIDS=\"1\"", false);
        check("UID=\"1000\"", false);
        check("", false);
    }

    #[test]
    fn what_a_killed_shell_left_is_nothing() {
        for left in ["", "/workspace", "/workspace\0a\0b", "/workspace\0a\0b\0c"] {
            assert!(ShellState::parse(left.as_bytes()).is_none(), "{left:?}");
        }
        let state = ShellState::parse(b"/workspace\0export A='1'\n").unwrap();
        assert_eq!(state.script, b"export A='1'\n");
        let state =
            ShellState::parse(b"relative\0extglob\0errexit\0f () {}\n\0declare -- x=\"1\"\n");
        let state = state.unwrap();
        assert_eq!(state.cwd, None);
        let script = String::from_utf8(state.script).unwrap();
        assert!(script.contains("f () {}\ndeclare -- x=\"1\"\n"), "{script}");
    }
}
