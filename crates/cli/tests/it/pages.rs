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
        A coding agent whose every command is sealed in a sandbox. Without a command, you talk to it

        Usage: hotcell [OPTIONS]
               hotcell <COMMAND>

        Commands:
          run          Gives a task to the agent and waits for its end
          resume       Goes on with a session: with a new prompt, or where it was cut short
          demo         Shows the whole path with no key: a scripted model, a real sandbox, real tools
          sessions     Lists, shows, searches, exports and deletes sessions
          undo         Takes back the last turn of a session, files and conversation together
          replay       Runs the recorded tool calls of a session again and tells where results differ
          serve        Starts a server: jobs over HTTP, with a web UI
          keys         Makes, lists and revokes keys of the server's API
          backup       Copy everything that a server keeps, also while it runs
          config       Prints the settings in force and where each came from
          env          Allows or forgets the API keys and the model in a `.env` file
          exec         Runs one command in a fresh sandbox
          doctor       Says what protects a sandbox on this machine, proved by starting one; with `--probe`,
                       one of every kind
          image        Makes, lists and removes images: root file systems for sandboxes
          audit        Works on audit logs
          completions  Prints shell completions, for instance `hotcell completions bash`
          man          Prints the manual page
          help         Print this message or the help of the given subcommand(s)

        Options:
              --load <SESSION>  Opens a session by its name or how that begins
          -c, --continue        Opens the last session of this workspace
              --plain           Lines instead of a screen, for simple terminals, screen readers and pipes
              --no-ask          Asks nobody: what no rule allows to leave the sandbox is refused
              --server <URL>    The server whose jobs can be followed [default: `http://127.0.0.1:3001`]
              --data <FOLDER>   Where sessions are kept [default: `hotcell` in the user's data folder] [env:
                                HOTCELL_DATA=]
              --config <FILE>   The settings file [default: `hotcell/config.toml` in the user's config
                                folder] [env: HOTCELL_CONFIG=]
          -h, --help            Print help
          -V, --version         Print version

        Sandbox:
              --workspace <FOLDER>   The one host folder inside, at `/workspace` [default: SAFEDIR, or
                                     `./workspace`]
              --rootfs <FOLDER>      A folder with a root file system, instead of the host's own programs
              --image <NAME>         An image, as `hotcell image list` names it, instead of the host's own
                                     programs
              --backend <WALLS>      The walls: `auto` takes the strongest that `hotcell doctor --probe`
                                     proved here; `none` means no protection [possible values: auto, native,
                                     podman, docker, gvisor, microvm, firecracker, microsandbox, none]
              --require <STRENGTH>   How strong the walls must be: `namespaces`, `kernel` (one of their own
                                     in user space) or `vm`. Nothing weaker is ever started [possible
                                     values: namespaces, kernel, vm]
              --memory <SIZE>        Memory, for instance `512M`, `2G`
              --cpus <NUMBER>        Processors, for instance `1`, `0.5`
              --pids <NUMBER>        Processes and threads
              --disk <SIZE>          How much the workspace may grow
              --open-files <NUMBER>  Open files of one process
              --max-output <SIZE>    How much one command may print
              --strict-limits        Refuses to start when nothing on this machine enforces one of the
                                     limits in full
              --allow-net <HOST>     Opens a host: `example.com`, `*.example.com`, `host:port`. May be given
                                     many times
              --audit <FILE>         Where to record every command, file write and connection [default:
                                     `audit.jsonl` in the user's state folder] [env: HOTCELL_AUDIT=]
              --no-audit             Records nothing

        Model:
              --model <NAME>         `claude-…`, or `openai/NAME` for a server that speaks chat completions
              --base-url <URL>       Where the provider is, such as `http://127.0.0.1:11434`
              --max-tokens <NUMBER>  Most tokens of one reply
              --thinking <NUMBER>    Tokens that the model may think before it speaks; at least 1024
              --env-file <FILE>      Reads API keys and the model from this file instead of `.env`, without
                                     asking

        Budget:
              --max-cost <DOLLARS>         US dollars, such as `0.50`
              --max-tokens-total <NUMBER>  Input and output tokens of all requests together
              --max-turns <NUMBER>         Requests to the model
              --max-time <TIME>            Wall time, for instance `90s`, `10m`
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

              --image <NAME>
                  An image, as `hotcell image list` names it, instead of the host's own programs

              --backend <WALLS>
                  The walls: `auto` takes the strongest that `hotcell doctor --probe` proved here; `none`
                  means no protection

                  [possible values: auto, native, podman, docker, gvisor, microvm, firecracker,
                  microsandbox, none]

              --require <STRENGTH>
                  How strong the walls must be: `namespaces`, `kernel` (one of their own in user space) or
                  `vm`. Nothing weaker is ever started

                  [possible values: namespaces, kernel, vm]

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
        Says what protects a sandbox on this machine, proved by starting one; with `--probe`, one of every
        kind

        Usage: hotcell doctor [OPTIONS]

        Options:
              --probe          Starts a sandbox with every backend, and keeps what comes of it for
                               `--backend auto`
              --data <FOLDER>  Where sessions are kept [default: `hotcell` in the user's data folder] [env:
                               HOTCELL_DATA=]
              --config <FILE>  The settings file [default: `hotcell/config.toml` in the user's config
                               folder] [env: HOTCELL_CONFIG=]
              --json           For programs
          -h, --help           Print help
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

/// Without the flags of sandboxes, which `exec` has shown.
fn own_help_for(arguments: &[&str]) -> String {
    let page = help_for(arguments);
    let parts: Vec<&str> = page.split("\n\n").collect();
    let exec = help_for(&["exec"]);
    let is_own = |part: &&&str| !part.trim_start().starts_with("--") || !exec.contains(part.trim());
    parts
        .iter()
        .filter(is_own)
        .copied()
        .collect::<Vec<_>>()
        .join("\n\n")
}

#[test]
fn help_for_agents() {
    assert_snapshot!(own_help_for(&["run"]), @r"
        Gives a task to the agent and waits for its end.

        Progress goes to standard error, the answer to standard output. The exit code is 0 when the model is
        done, 1 when the task failed, 2 for wrong input, 3 when a budget is used up, 4 when the provider
        failed, 130 when it was interrupted.

        Usage: hotcell run [OPTIONS] <PROMPT>

        Arguments:
          <PROMPT>
                  The task; `-` reads it from standard input

        Options:
              --json
                  Prints one event a line, as JSON, on standard output

              --data <FOLDER>
                  Where sessions are kept [default: `hotcell` in the user's data folder]

                  [env: HOTCELL_DATA=]

              --config <FILE>
                  The settings file [default: `hotcell/config.toml` in the user's config folder]

                  [env: HOTCELL_CONFIG=]

                  [possible values: auto, native, podman, docker, gvisor, microvm, firecracker,
                  microsandbox, none]

                  [possible values: namespaces, kernel, vm]

                  [env: HOTCELL_AUDIT=]

          -h, --help
                  Print help (see a summary with '-h')

        Model:
              --model <NAME>
                  `claude-…`, or `openai/NAME` for a server that speaks chat completions

              --base-url <URL>
                  Where the provider is, such as `http://127.0.0.1:11434`

              --max-tokens <NUMBER>
                  Most tokens of one reply

              --thinking <NUMBER>
                  Tokens that the model may think before it speaks; at least 1024

              --env-file <FILE>
                  Reads API keys and the model from this file instead of `.env`, without asking

        Budget:
              --max-cost <DOLLARS>
                  US dollars, such as `0.50`

              --max-tokens-total <NUMBER>
                  Input and output tokens of all requests together

              --max-turns <NUMBER>
                  Requests to the model

              --max-time <TIME>
                  Wall time, for instance `90s`, `10m`
    ");
    assert_snapshot!(own_help_for(&["resume"]), @r"
        Goes on with a session: with a new prompt, or where it was cut short

        Usage: hotcell resume [OPTIONS] [SESSION]

        Arguments:
          [SESSION]  The session's name or how it begins [default: the last one in this workspace]

        Options:
          -p, --prompt <PROMPT>      What to say next; `-` reads it from standard input. Without it, a turn
                                     that was cut short goes on
              --fork                 Leaves the session as it is and goes on in a copy
              --json                 Prints one event a line, as JSON, on standard output
              --data <FOLDER>        Where sessions are kept [default: `hotcell` in the user's data folder]
                                     [env: HOTCELL_DATA=]
              --config <FILE>        The settings file [default: `hotcell/config.toml` in the user's config
                                     folder] [env: HOTCELL_CONFIG=]
              --workspace <FOLDER>   The one host folder inside, at `/workspace` [default: SAFEDIR, or
                                     `./workspace`]
              --rootfs <FOLDER>      A folder with a root file system, instead of the host's own programs
              --image <NAME>         An image, as `hotcell image list` names it, instead of the host's own
                                     programs
              --backend <WALLS>      The walls: `auto` takes the strongest that `hotcell doctor --probe`
                                     proved here; `none` means no protection [possible values: auto, native,
                                     podman, docker, gvisor, microvm, firecracker, microsandbox, none]
              --require <STRENGTH>   How strong the walls must be: `namespaces`, `kernel` (one of their own
                                     in user space) or `vm`. Nothing weaker is ever started [possible
                                     values: namespaces, kernel, vm]
              --memory <SIZE>        Memory, for instance `512M`, `2G`
              --cpus <NUMBER>        Processors, for instance `1`, `0.5`
              --pids <NUMBER>        Processes and threads
              --disk <SIZE>          How much the workspace may grow
              --open-files <NUMBER>  Open files of one process
              --max-output <SIZE>    How much one command may print
              --strict-limits        Refuses to start when nothing on this machine enforces one of the
                                     limits in full
              --allow-net <HOST>     Opens a host: `example.com`, `*.example.com`, `host:port`. May be given
                                     many times
              --audit <FILE>         Where to record every command, file write and connection [default:
                                     `audit.jsonl` in the user's state folder] [env: HOTCELL_AUDIT=]
              --no-audit             Records nothing
          -h, --help                 Print help

        Model:
              --model <NAME>         `claude-…`, or `openai/NAME` for a server that speaks chat completions
              --base-url <URL>       Where the provider is, such as `http://127.0.0.1:11434`
              --max-tokens <NUMBER>  Most tokens of one reply
              --thinking <NUMBER>    Tokens that the model may think before it speaks; at least 1024
              --env-file <FILE>      Reads API keys and the model from this file instead of `.env`, without
                                     asking

        Budget:
              --max-cost <DOLLARS>         US dollars, such as `0.50`
              --max-tokens-total <NUMBER>  Input and output tokens of all requests together
              --max-turns <NUMBER>         Requests to the model
              --max-time <TIME>            Wall time, for instance `90s`, `10m`
    ");
    assert_snapshot!(help_for(&["sessions"]), @r"
        Lists, shows, searches, exports and deletes sessions

        Usage: hotcell sessions [OPTIONS]
               hotcell sessions <COMMAND>

        Commands:
          list    Lists sessions, the newest first
          show    Prints a session for people to read
          search  Finds sessions by words that the person or the model said
          export  Writes a session to a JSON file named after its beginning, `YYYYMMDD-HHMMSS.json`
          delete  Removes sessions with all that was kept for them
          help    Print this message or the help of the given subcommand(s)

        Options:
              --data <FOLDER>       Where sessions are kept [default: `hotcell` in the user's data folder]
                                    [env: HOTCELL_DATA=]
              --config <FILE>       The settings file [default: `hotcell/config.toml` in the user's config
                                    folder] [env: HOTCELL_CONFIG=]
          -n, --limit <NUMBER>      How many; 0 is all [default: 20]
              --workspace <FOLDER>  Only those of this workspace
              --json                For programs
          -h, --help                Print help
    ");
    assert_snapshot!(help_for(&["sessions", "export"]), @r"
        Writes a session to a JSON file named after its beginning, `YYYYMMDD-HHMMSS.json`

        Usage: hotcell sessions export [OPTIONS] <SESSION>

        Arguments:
          <SESSION>  The session's name, or how it begins

        Options:
              --data <FOLDER>  Where sessions are kept [default: `hotcell` in the user's data folder] [env:
                               HOTCELL_DATA=]
              --config <FILE>  The settings file [default: `hotcell/config.toml` in the user's config
                               folder] [env: HOTCELL_CONFIG=]
          -o, --output <PATH>  The file or folder to write to; `-` is standard output [default: .]
              --force          Replaces a file that is there
          -h, --help           Print help
    ");
    assert_snapshot!(own_help_for(&["undo"]), @r"
        Takes back the last turn of a session, files and conversation together

        Usage: hotcell undo [OPTIONS] [SESSION]

        Arguments:
          [SESSION]  The session's name or how it begins [default: the last one in this workspace]

        Options:
              --data <FOLDER>        Where sessions are kept [default: `hotcell` in the user's data folder]
                                     [env: HOTCELL_DATA=]
              --config <FILE>        The settings file [default: `hotcell/config.toml` in the user's config
                                     folder] [env: HOTCELL_CONFIG=]
              --workspace <FOLDER>   The one host folder inside, at `/workspace` [default: SAFEDIR, or
                                     `./workspace`]
              --rootfs <FOLDER>      A folder with a root file system, instead of the host's own programs
              --image <NAME>         An image, as `hotcell image list` names it, instead of the host's own
                                     programs
              --backend <WALLS>      The walls: `auto` takes the strongest that `hotcell doctor --probe`
                                     proved here; `none` means no protection [possible values: auto, native,
                                     podman, docker, gvisor, microvm, firecracker, microsandbox, none]
              --require <STRENGTH>   How strong the walls must be: `namespaces`, `kernel` (one of their own
                                     in user space) or `vm`. Nothing weaker is ever started [possible
                                     values: namespaces, kernel, vm]
              --memory <SIZE>        Memory, for instance `512M`, `2G`
              --cpus <NUMBER>        Processors, for instance `1`, `0.5`
              --pids <NUMBER>        Processes and threads
              --disk <SIZE>          How much the workspace may grow
              --open-files <NUMBER>  Open files of one process
              --max-output <SIZE>    How much one command may print
              --strict-limits        Refuses to start when nothing on this machine enforces one of the
                                     limits in full
              --allow-net <HOST>     Opens a host: `example.com`, `*.example.com`, `host:port`. May be given
                                     many times
              --audit <FILE>         Where to record every command, file write and connection [default:
                                     `audit.jsonl` in the user's state folder] [env: HOTCELL_AUDIT=]
              --no-audit             Records nothing
              --json                 Prints one event a line, as JSON, on standard output
          -h, --help                 Print help
    ");
    assert_snapshot!(help_for(&["replay"]), @r"
        Runs the recorded tool calls of a session again and tells where results differ

        Usage: hotcell replay [OPTIONS] <SESSION>

        Arguments:
          <SESSION>  The session's name, or how it begins

        Options:
              --data <FOLDER>  Where sessions are kept [default: `hotcell` in the user's data folder] [env:
                               HOTCELL_DATA=]
              --config <FILE>  The settings file [default: `hotcell/config.toml` in the user's config
                               folder] [env: HOTCELL_CONFIG=]
              --json           For programs: one call a line
          -h, --help           Print help
    ");
    assert_snapshot!(help_for(&["config"]), @r"
        Prints the settings in force and where each came from

        Usage: hotcell config [OPTIONS]

        Options:
              --data <FOLDER>  Where sessions are kept [default: `hotcell` in the user's data folder] [env:
                               HOTCELL_DATA=]
              --config <FILE>  The settings file [default: `hotcell/config.toml` in the user's config
                               folder] [env: HOTCELL_CONFIG=]
              --json           For programs
          -h, --help           Print help

        Model:
              --model <NAME>         `claude-…`, or `openai/NAME` for a server that speaks chat completions
              --base-url <URL>       Where the provider is, such as `http://127.0.0.1:11434`
              --max-tokens <NUMBER>  Most tokens of one reply
              --thinking <NUMBER>    Tokens that the model may think before it speaks; at least 1024
              --env-file <FILE>      Reads API keys and the model from this file instead of `.env`, without
                                     asking
    ");
}

#[test]
fn version() {
    assert_eq!(
        said(&["--version"]),
        concat!("hotcell ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

const COMMANDS: [&str; 9] = [
    "run", "resume", "demo", "sessions", "undo", "replay", "config", "exec", "doctor",
];

#[test]
fn completions_and_the_manual() {
    for shell in ["bash", "zsh", "fish"] {
        let script = said(&["completions", shell]);
        for word in COMMANDS.iter().chain(&[
            "workspace",
            "allow-net",
            "max-cost",
            "fork",
            "continue",
            "plain",
        ]) {
            assert!(script.contains(word), "{shell} knows nothing of {word}");
        }
    }
    let page = said(&["man"]);
    assert!(page.contains(".TH hotcell 1"), "{page}");
    for command in COMMANDS {
        let heading = format!(".SH HOTCELL {}\n", command.to_uppercase());
        assert!(page.contains(&heading), "no {heading} in {page}");
    }
    for word in [
        "\\-\\-continue",
        "max\\-cost",
        "fork",
        "export",
        "130 when it was interrupted",
    ] {
        assert!(page.contains(word), "no {word} in {page}");
    }
}
