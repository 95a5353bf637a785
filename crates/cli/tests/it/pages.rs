//! Pages made from the flags: help, completions, the manual.

use insta::assert_snapshot;

use crate::place::{Place, assert_code, run, stdout};

fn said(arguments: &[&str]) -> String {
    let output = run(&mut Place::new().hotcell(arguments.iter().copied()));
    assert_code(&output, 0);
    assert_eq!(output.stderr, b"");
    stdout(&output)
}

/// Without the spaces that the page has at the ends of lines.
fn help_for(arguments: &[&str]) -> String {
    let page = said(&[arguments, &["--help"]].concat());
    let lines: Vec<&str> = page.lines().map(str::trim_end).collect();
    lines.join("\n")
}

#[test]
fn help() {
    assert_snapshot!(help_for(&[]), @r"
        A coding agent's workshop: every command it runs is sealed in a sandbox

        Usage: hotcell <COMMAND>

        Commands:
          exec         Runs one command in a fresh sandbox
          doctor       Says what protects a sandbox on this machine, proved by starting one
          audit        Works on audit logs
          completions  Prints shell completions, for instance `hotcell completions bash`
          man          Prints the manual page
          help         Print this message or the help of the given subcommand(s)

        Options:
          -h, --help     Print help
          -V, --version  Print version
    ");
    assert_snapshot!(help_for(&["exec"]), @r"
        Runs one command in a fresh sandbox.

        Standard input, output and errors pass through byte for byte; the exit code is the command's own,
        124 when its time is over, 137 when a limit killed it, 125 when the sandbox could not be started,
        126 and 127 when the command could not.

        Usage: hotcell exec [OPTIONS] -- <COMMAND>...

        Arguments:
          <COMMAND>...
                  The command and its arguments

        Options:
              --workspace <FOLDER>
                  The one host folder inside, at `/workspace` [default: SAFEDIR, or `./workspace`]

              --rootfs <FOLDER>
                  A folder with a root file system, instead of the host's own programs

              --backend <WALLS>
                  The walls: `auto` takes the strongest that works here; `none` means no protection

                  [possible values: auto, native, none]

              --memory <SIZE>
                  Memory, for instance `512M`, `2G`

              --cpus <NUMBER>
                  Processors, for instance `1`, `0.5`

              --pids <NUMBER>
                  Processes and threads

              --disk <SIZE>
                  How much the workspace may grow

              --open-files <NUMBER>
                  Open files of one process

              --max-output <SIZE>
                  How much one command may print

              --strict-limits
                  Refuses to start when nothing on this machine enforces one of the limits in full

              --allow-net <HOST>
                  Opens a host: `example.com`, `*.example.com`, `host:port`. May be given many times

              --audit <FILE>
                  Where to record every command, file write and connection [default: `audit.jsonl` in the
                  user's state folder]

                  [env: HOTCELL_AUDIT=]

              --no-audit
                  Records nothing

              --timeout <TIME>
                  Wall time, for instance `30s`, `5m`, `1h`

              --env <NAME=VALUE>
                  A variable for the command; may be given many times

          -t, --terminal
                  Runs the command on a terminal of its own

          -h, --help
                  Print help (see a summary with '-h')
    ");
    assert_snapshot!(help_for(&["doctor"]), @r"
        Says what protects a sandbox on this machine, proved by starting one

        Usage: hotcell doctor [OPTIONS]

        Options:
              --json  For programs
          -h, --help  Print help
    ");
    assert_snapshot!(help_for(&["audit"]), @r"
        Works on audit logs

        Usage: hotcell audit <COMMAND>

        Commands:
          verify  Finds every changed, removed or reordered line
          help    Print this message or the help of the given subcommand(s)

        Options:
          -h, --help  Print help
    ");
    assert_snapshot!(help_for(&["audit", "verify"]), @r"
        Finds every changed, removed or reordered line

        Usage: hotcell audit verify <FILE>

        Arguments:
          <FILE>  The log, such as `audit.jsonl`

        Options:
          -h, --help  Print help
    ");
    assert_snapshot!(help_for(&["completions"]), @r"
        Prints shell completions, for instance `hotcell completions bash`

        Usage: hotcell completions <SHELL>

        Arguments:
          <SHELL>  [possible values: bash, elvish, fish, powershell, zsh]

        Options:
          -h, --help  Print help
    ");
    assert_snapshot!(help_for(&["man"]), @r"
        Prints the manual page

        Usage: hotcell man

        Options:
          -h, --help  Print help
    ");
    assert_eq!(said(&["help", "exec"]), said(&["exec", "--help"]));
}

#[test]
fn version() {
    assert_eq!(
        said(&["--version"]),
        concat!("hotcell ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn completions_and_the_manual() {
    for shell in ["bash", "zsh", "fish"] {
        let script = said(&["completions", shell]);
        for word in ["exec", "doctor", "workspace", "allow-net"] {
            assert!(script.contains(word), "{shell} knows nothing of {word}");
        }
    }
    let page = said(&["man"]);
    assert!(page.contains(".TH hotcell 1"), "{page}");
    assert!(page.contains("exec") && page.contains("doctor"), "{page}");
}
