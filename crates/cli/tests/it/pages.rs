//! Pages generated from the flags: help, completions, the manual.

use insta::assert_snapshot;

use crate::place::{Place, assert_code, run, stdout};

fn stdout_of(arguments: &[&str]) -> String {
    let output = run(&mut Place::new().hotcell(arguments.iter().copied()));
    assert_code(&output, 0);
    assert_eq!(output.stderr, b"");
    stdout(&output)
}

/// Without trailing spaces.
fn help_for(arguments: &[&str]) -> String {
    let page = stdout_of(&[arguments, &["--help"]].concat());
    let lines: Vec<&str> = page.lines().map(str::trim_end).collect();
    lines.join("\n")
}

#[test]
fn help() {
    assert_snapshot!(help_for(&[]), @r"
        A coding agent that runs every command in a sandbox. Without a subcommand, start a chat

        Usage: hotcell [OPTIONS]
               hotcell <COMMAND>

        Commands:
          run          Run a task with the agent and wait until it ends
          resume       Resume a session, with a new prompt or where it was cut short
          demo         Run a demo without an API key: a scripted model, a real sandbox, real tools
          sessions     List, show, search, export and delete sessions
          undo         Undo the last turn of a session: its files and its part of the conversation
          replay       Run the recorded tool calls of a session again and report where results differ
          serve        Start a server that runs jobs over HTTP, with a web UI
          keys         Create, list and revoke API keys of the server
          backup       Copy all data of a server, also while it runs
          config       Print the settings in effect and where each comes from
          env          Allow or forget the API keys and the model in a `.env` file
          exec         Run a command in a new sandbox
          doctor       Check what protects a sandbox on this machine by starting one; with `--probe`, one
                       per backend
          image        Build, list and remove images (root file systems for sandboxes)
          audit        Verify audit logs
          completions  Print shell completions, such as `hotcell completions bash`
          man          Print the manual page
          help         Print this message or the help of the given subcommand(s)

        Options:
              --load <SESSION>  Open a session by its name or a prefix of it
          -c, --continue        Open the last session of this workspace
              --plain           Use lines instead of a full screen, for simple terminals, screen readers and
                                pipes
              --no-ask          Never ask: deny connections that no rule allows
              --server <URL>    Server whose jobs can be followed [default: `http://127.0.0.1:3001`]
              --data <FOLDER>   Folder where sessions are stored [default: `hotcell` in the user's data
                                folder] [env: HOTCELL_DATA=]
              --config <FILE>   Settings file [default: `hotcell/config.toml` in the user's config folder]
                                [env: HOTCELL_CONFIG=]
          -h, --help            Print help
          -V, --version         Print version

        Sandbox:
              --workspace <FOLDER>   Host folder to mount at `/workspace` [default: SAFEDIR, or
                                     `./workspace`]
              --rootfs <FOLDER>      Folder with a root file system to use instead of the host's programs
              --image <NAME>         Image to use instead of the host's programs; see `hotcell image list`
              --backend <WALLS>      Sandbox backend: `auto` selects the strongest that `hotcell doctor
                                     --probe` proved here; `none` gives no protection [possible values:
                                     auto, native, podman, docker, gvisor, microvm, firecracker,
                                     microsandbox, none]
              --require <STRENGTH>   Minimum strength of the backend: `namespaces`, `kernel` (a separate
                                     kernel in user space) or `vm`. Starting fails if the backend is weaker
                                     [possible values: namespaces, kernel, vm]
              --memory <SIZE>        Memory limit, such as `512M`, `2G`
              --cpus <NUMBER>        CPU limit, such as `1`, `0.5`
              --pids <NUMBER>        Maximum number of processes and threads
              --disk <SIZE>          Maximum growth of the workspace
              --open-files <NUMBER>  Maximum open files per process
              --max-output <SIZE>    Maximum output of a command
              --strict-limits        Fail if a limit cannot be fully enforced on this machine
              --allow-net <HOST>     Allow connections to a host: `example.com`, `*.example.com`,
                                     `host:port`; can be repeated
              --audit <FILE>         Audit log of every command, file write and connection [default:
                                     `audit.jsonl` in the user's state folder] [env: HOTCELL_AUDIT=]
              --no-audit             Do not write an audit log

        Model:
              --model <NAME>         `claude-…`, or `openai/NAME` for a server with a chat completions API
              --base-url <URL>       Base URL of the provider, such as `http://127.0.0.1:11434`
              --max-tokens <NUMBER>  Maximum tokens per reply
              --thinking <NUMBER>    Maximum thinking tokens per reply; at least 1024
              --env-file <FILE>      Read API keys and the model from this file instead of `.env`, without
                                     asking

        Budget:
              --max-cost <DOLLARS>         Maximum cost in US dollars, such as `0.50`
              --max-tokens-total <NUMBER>  Maximum input and output tokens of all requests together
              --max-turns <NUMBER>         Maximum number of requests to the model
              --max-time <TIME>            Wall-clock time limit, such as `90s`, `10m`
    ");
    assert_snapshot!(help_for(&["exec"]), @r"
        Run a command in a new sandbox.

        Standard input, output and error pass through unchanged. The exit code is the command's own, 124 if
        it timed out, 137 if a limit killed it, 125 if the sandbox could not be started, 126 or 127 if the
        command could not be started.

        Usage: hotcell exec [OPTIONS] -- <COMMAND>...

        Arguments:
          <COMMAND>...
                  Command and its arguments

        Options:
              --workspace <FOLDER>
                  Host folder to mount at `/workspace` [default: SAFEDIR, or `./workspace`]

              --rootfs <FOLDER>
                  Folder with a root file system to use instead of the host's programs

              --image <NAME>
                  Image to use instead of the host's programs; see `hotcell image list`

              --backend <WALLS>
                  Sandbox backend: `auto` selects the strongest that `hotcell doctor --probe` proved here;
                  `none` gives no protection

                  [possible values: auto, native, podman, docker, gvisor, microvm, firecracker,
                  microsandbox, none]

              --require <STRENGTH>
                  Minimum strength of the backend: `namespaces`, `kernel` (a separate kernel in user space)
                  or `vm`. Starting fails if the backend is weaker

                  [possible values: namespaces, kernel, vm]

              --memory <SIZE>
                  Memory limit, such as `512M`, `2G`

              --cpus <NUMBER>
                  CPU limit, such as `1`, `0.5`

              --pids <NUMBER>
                  Maximum number of processes and threads

              --disk <SIZE>
                  Maximum growth of the workspace

              --open-files <NUMBER>
                  Maximum open files per process

              --max-output <SIZE>
                  Maximum output of a command

              --strict-limits
                  Fail if a limit cannot be fully enforced on this machine

              --allow-net <HOST>
                  Allow connections to a host: `example.com`, `*.example.com`, `host:port`; can be repeated

              --audit <FILE>
                  Audit log of every command, file write and connection [default: `audit.jsonl` in the
                  user's state folder]

                  [env: HOTCELL_AUDIT=]

              --no-audit
                  Do not write an audit log

              --timeout <TIME>
                  Wall-clock time limit, such as `30s`, `5m`, `1h`

              --env <NAME=VALUE>
                  Environment variable for the command; can be repeated

          -t, --terminal
                  Allocate a terminal for the command

          -h, --help
                  Print help (see a summary with '-h')
    ");
    assert_snapshot!(help_for(&["doctor"]), @r"
        Check what protects a sandbox on this machine by starting one; with `--probe`, one per backend

        Usage: hotcell doctor [OPTIONS]

        Options:
              --probe          Start a sandbox with every backend and store the results for `--backend auto`
              --data <FOLDER>  Folder where sessions are stored [default: `hotcell` in the user's data
                               folder] [env: HOTCELL_DATA=]
              --config <FILE>  Settings file [default: `hotcell/config.toml` in the user's config folder]
                               [env: HOTCELL_CONFIG=]
              --json           Print JSON
          -h, --help           Print help
    ");
    assert_snapshot!(help_for(&["audit"]), @r"
        Verify audit logs

        Usage: hotcell audit <COMMAND>

        Commands:
          verify  Find changed, removed and reordered lines
          help    Print this message or the help of the given subcommand(s)

        Options:
          -h, --help  Print help
    ");
    assert_snapshot!(help_for(&["audit", "verify"]), @r"
        Find changed, removed and reordered lines

        Usage: hotcell audit verify <FILE>

        Arguments:
          <FILE>  Log file, such as `audit.jsonl`

        Options:
          -h, --help  Print help
    ");
    assert_snapshot!(help_for(&["completions"]), @r"
        Print shell completions, such as `hotcell completions bash`

        Usage: hotcell completions <SHELL>

        Arguments:
          <SHELL>  [possible values: bash, elvish, fish, powershell, zsh]

        Options:
          -h, --help  Print help
    ");
    assert_snapshot!(help_for(&["man"]), @r"
        Print the manual page

        Usage: hotcell man

        Options:
          -h, --help  Print help
    ");
    assert_eq!(stdout_of(&["help", "exec"]), stdout_of(&["exec", "--help"]));
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
        Run a task with the agent and wait until it ends.

        Progress goes to standard error, the answer to standard output. The exit code is 0 when the model is
        done, 1 when the task failed, 2 for wrong input, 3 when a budget is used up, 4 when the provider
        failed, 130 when it was interrupted.

        Usage: hotcell run [OPTIONS] <PROMPT>

        Arguments:
          <PROMPT>
                  Task for the agent; `-` reads it from standard input

        Options:
              --json
                  Print events as JSON, one per line, on standard output

              --data <FOLDER>
                  Folder where sessions are stored [default: `hotcell` in the user's data folder]

                  [env: HOTCELL_DATA=]

              --config <FILE>
                  Settings file [default: `hotcell/config.toml` in the user's config folder]

                  [env: HOTCELL_CONFIG=]

                  [possible values: auto, native, podman, docker, gvisor, microvm, firecracker,
                  microsandbox, none]

                  [possible values: namespaces, kernel, vm]

                  [env: HOTCELL_AUDIT=]

          -h, --help
                  Print help (see a summary with '-h')

        Model:
              --model <NAME>
                  `claude-…`, or `openai/NAME` for a server with a chat completions API

              --base-url <URL>
                  Base URL of the provider, such as `http://127.0.0.1:11434`

              --max-tokens <NUMBER>
                  Maximum tokens per reply

              --thinking <NUMBER>
                  Maximum thinking tokens per reply; at least 1024

              --env-file <FILE>
                  Read API keys and the model from this file instead of `.env`, without asking

        Budget:
              --max-cost <DOLLARS>
                  Maximum cost in US dollars, such as `0.50`

              --max-tokens-total <NUMBER>
                  Maximum input and output tokens of all requests together

              --max-turns <NUMBER>
                  Maximum number of requests to the model

              --max-time <TIME>
                  Wall-clock time limit, such as `90s`, `10m`
    ");
    assert_snapshot!(own_help_for(&["resume"]), @r"
        Resume a session, with a new prompt or where it was cut short

        Usage: hotcell resume [OPTIONS] [SESSION]

        Arguments:
          [SESSION]  Name of the session, or a prefix of it [default: the last one in this workspace]

        Options:
          -p, --prompt <PROMPT>      Next prompt; `-` reads it from standard input. Without it, a turn that
                                     was cut short is continued
              --fork                 Continue in a copy and leave the session unchanged
              --json                 Print events as JSON, one per line, on standard output
              --data <FOLDER>        Folder where sessions are stored [default: `hotcell` in the user's data
                                     folder] [env: HOTCELL_DATA=]
              --config <FILE>        Settings file [default: `hotcell/config.toml` in the user's config
                                     folder] [env: HOTCELL_CONFIG=]
              --workspace <FOLDER>   Host folder to mount at `/workspace` [default: SAFEDIR, or
                                     `./workspace`]
              --rootfs <FOLDER>      Folder with a root file system to use instead of the host's programs
              --image <NAME>         Image to use instead of the host's programs; see `hotcell image list`
              --backend <WALLS>      Sandbox backend: `auto` selects the strongest that `hotcell doctor
                                     --probe` proved here; `none` gives no protection [possible values:
                                     auto, native, podman, docker, gvisor, microvm, firecracker,
                                     microsandbox, none]
              --require <STRENGTH>   Minimum strength of the backend: `namespaces`, `kernel` (a separate
                                     kernel in user space) or `vm`. Starting fails if the backend is weaker
                                     [possible values: namespaces, kernel, vm]
              --memory <SIZE>        Memory limit, such as `512M`, `2G`
              --cpus <NUMBER>        CPU limit, such as `1`, `0.5`
              --pids <NUMBER>        Maximum number of processes and threads
              --disk <SIZE>          Maximum growth of the workspace
              --open-files <NUMBER>  Maximum open files per process
              --max-output <SIZE>    Maximum output of a command
              --strict-limits        Fail if a limit cannot be fully enforced on this machine
              --allow-net <HOST>     Allow connections to a host: `example.com`, `*.example.com`,
                                     `host:port`; can be repeated
              --audit <FILE>         Audit log of every command, file write and connection [default:
                                     `audit.jsonl` in the user's state folder] [env: HOTCELL_AUDIT=]
              --no-audit             Do not write an audit log
          -h, --help                 Print help

        Model:
              --model <NAME>         `claude-…`, or `openai/NAME` for a server with a chat completions API
              --base-url <URL>       Base URL of the provider, such as `http://127.0.0.1:11434`
              --max-tokens <NUMBER>  Maximum tokens per reply
              --thinking <NUMBER>    Maximum thinking tokens per reply; at least 1024
              --env-file <FILE>      Read API keys and the model from this file instead of `.env`, without
                                     asking

        Budget:
              --max-cost <DOLLARS>         Maximum cost in US dollars, such as `0.50`
              --max-tokens-total <NUMBER>  Maximum input and output tokens of all requests together
              --max-turns <NUMBER>         Maximum number of requests to the model
              --max-time <TIME>            Wall-clock time limit, such as `90s`, `10m`
    ");
    assert_snapshot!(help_for(&["sessions"]), @r"
        List, show, search, export and delete sessions

        Usage: hotcell sessions [OPTIONS]
               hotcell sessions <COMMAND>

        Commands:
          list    List sessions, newest first
          show    Print a session as readable text
          search  Search sessions for words of the user or the model
          export  Export a session to a JSON file named after its start time, `YYYYMMDD-HHMMSS.json`
          delete  Delete sessions and everything stored for them
          help    Print this message or the help of the given subcommand(s)

        Options:
              --data <FOLDER>       Folder where sessions are stored [default: `hotcell` in the user's data
                                    folder] [env: HOTCELL_DATA=]
              --config <FILE>       Settings file [default: `hotcell/config.toml` in the user's config
                                    folder] [env: HOTCELL_CONFIG=]
          -n, --limit <NUMBER>      Maximum number of sessions; 0 for all [default: 20]
              --workspace <FOLDER>  Only sessions of this workspace
              --json                Print JSON
          -h, --help                Print help
    ");
    assert_snapshot!(help_for(&["sessions", "export"]), @r"
        Export a session to a JSON file named after its start time, `YYYYMMDD-HHMMSS.json`

        Usage: hotcell sessions export [OPTIONS] <SESSION>

        Arguments:
          <SESSION>  Name of the session, or a prefix of it

        Options:
              --data <FOLDER>  Folder where sessions are stored [default: `hotcell` in the user's data
                               folder] [env: HOTCELL_DATA=]
              --config <FILE>  Settings file [default: `hotcell/config.toml` in the user's config folder]
                               [env: HOTCELL_CONFIG=]
          -o, --output <PATH>  File or folder to write to; `-` for standard output [default: .]
              --force          Replace an existing file
          -h, --help           Print help
    ");
    assert_snapshot!(own_help_for(&["undo"]), @r"
        Undo the last turn of a session: its files and its part of the conversation

        Usage: hotcell undo [OPTIONS] [SESSION]

        Arguments:
          [SESSION]  Name of the session, or a prefix of it [default: the last one in this workspace]

        Options:
              --data <FOLDER>        Folder where sessions are stored [default: `hotcell` in the user's data
                                     folder] [env: HOTCELL_DATA=]
              --config <FILE>        Settings file [default: `hotcell/config.toml` in the user's config
                                     folder] [env: HOTCELL_CONFIG=]
              --workspace <FOLDER>   Host folder to mount at `/workspace` [default: SAFEDIR, or
                                     `./workspace`]
              --rootfs <FOLDER>      Folder with a root file system to use instead of the host's programs
              --image <NAME>         Image to use instead of the host's programs; see `hotcell image list`
              --backend <WALLS>      Sandbox backend: `auto` selects the strongest that `hotcell doctor
                                     --probe` proved here; `none` gives no protection [possible values:
                                     auto, native, podman, docker, gvisor, microvm, firecracker,
                                     microsandbox, none]
              --require <STRENGTH>   Minimum strength of the backend: `namespaces`, `kernel` (a separate
                                     kernel in user space) or `vm`. Starting fails if the backend is weaker
                                     [possible values: namespaces, kernel, vm]
              --memory <SIZE>        Memory limit, such as `512M`, `2G`
              --cpus <NUMBER>        CPU limit, such as `1`, `0.5`
              --pids <NUMBER>        Maximum number of processes and threads
              --disk <SIZE>          Maximum growth of the workspace
              --open-files <NUMBER>  Maximum open files per process
              --max-output <SIZE>    Maximum output of a command
              --strict-limits        Fail if a limit cannot be fully enforced on this machine
              --allow-net <HOST>     Allow connections to a host: `example.com`, `*.example.com`,
                                     `host:port`; can be repeated
              --audit <FILE>         Audit log of every command, file write and connection [default:
                                     `audit.jsonl` in the user's state folder] [env: HOTCELL_AUDIT=]
              --no-audit             Do not write an audit log
              --json                 Print events as JSON, one per line, on standard output
          -h, --help                 Print help
    ");
    assert_snapshot!(help_for(&["replay"]), @r"
        Run the recorded tool calls of a session again and report where results differ

        Usage: hotcell replay [OPTIONS] <SESSION>

        Arguments:
          <SESSION>  Name of the session, or a prefix of it

        Options:
              --data <FOLDER>  Folder where sessions are stored [default: `hotcell` in the user's data
                               folder] [env: HOTCELL_DATA=]
              --config <FILE>  Settings file [default: `hotcell/config.toml` in the user's config folder]
                               [env: HOTCELL_CONFIG=]
              --json           Print JSON, one call per line
          -h, --help           Print help
    ");
    assert_snapshot!(help_for(&["config"]), @r"
        Print the settings in effect and where each comes from

        Usage: hotcell config [OPTIONS]

        Options:
              --data <FOLDER>  Folder where sessions are stored [default: `hotcell` in the user's data
                               folder] [env: HOTCELL_DATA=]
              --config <FILE>  Settings file [default: `hotcell/config.toml` in the user's config folder]
                               [env: HOTCELL_CONFIG=]
              --json           Print JSON
          -h, --help           Print help

        Model:
              --model <NAME>         `claude-…`, or `openai/NAME` for a server with a chat completions API
              --base-url <URL>       Base URL of the provider, such as `http://127.0.0.1:11434`
              --max-tokens <NUMBER>  Maximum tokens per reply
              --thinking <NUMBER>    Maximum thinking tokens per reply; at least 1024
              --env-file <FILE>      Read API keys and the model from this file instead of `.env`, without
                                     asking
    ");
}

#[test]
fn version() {
    assert_eq!(
        stdout_of(&["--version"]),
        concat!("hotcell ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

const COMMANDS: [&str; 9] = [
    "run", "resume", "demo", "sessions", "undo", "replay", "config", "exec", "doctor",
];

#[test]
fn completions_and_the_manual() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout_of(&["completions", shell]);
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
    let page = stdout_of(&["man"]);
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
