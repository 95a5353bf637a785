//! For tests: a network namespace in which the machine has public addresses.
//!
//! Such a test runs itself again inside the namespace, as a separate process. Entry point:
//! [`enter_or_rerun`].

use std::process::Command;

/// The addresses of the loopback interface in the namespace. The kernel treats the second address
/// of a network differently from the first.
pub(crate) const OWN_ADDRESSES: [&str; 3] = ["203.0.114.7", "203.0.114.8", "[2600:7::1]"];

/// Spellings of these addresses that a job, webhook or repository may use.
pub(crate) const SPELLINGS: [&str; 7] = [
    "203.0.114.7",
    "203.0.114.8",
    "0xcb007207",
    "0313.0.0162.07",
    "[::ffff:203.0.114.7]",
    "[64:ff9b::203.0.114.8]",
    "[2600:7::1]",
];

const MARKER_VARIABLE: &str = "HOTCELL_TEST_OWN_NETWORK";

const SETUP_SCRIPT: &str = r#"
PATH="$PATH:/usr/sbin:/sbin"
ip link set lo up &&
ip address add 203.0.114.7/24 dev lo &&
ip address add 203.0.114.8/24 dev lo &&
ip address add 2600:7::1/128 dev lo &&
exec "$@"
"#;

/// Whether this process is in the namespace. If not, runs the named test there, and panics unless
/// it passes.
pub(crate) fn enter_or_rerun(test: &str) -> bool {
    if std::env::var_os(MARKER_VARIABLE).is_some() {
        return true;
    }
    let output = Command::new("unshare")
        .args([
            "--user",
            "--map-root-user",
            "--net",
            "--",
            "sh",
            "-c",
            SETUP_SCRIPT,
            "sh",
        ])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(MARKER_VARIABLE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    assert!(
        text.contains("1 passed"),
        "there is no test `{test}`: {text}"
    );
    false
}
