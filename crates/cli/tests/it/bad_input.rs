//! Bad input of any kind: one clear line, a hint if there is a fix, code 2, nothing changed.

use std::fs;

use insta::assert_snapshot;

use crate::place::{Place, assert_code, run, stderr};

/// The output for each of these command lines.
pub(crate) fn errors_for(cases: &[&str]) -> String {
    let mut all = String::new();
    for case in cases {
        let place = Place::new();
        fs::create_dir(place.here("folder")).unwrap();
        fs::write(place.here("file"), "").unwrap();
        let before = place.everything();
        // Variables first, as in a shell; `''` is an empty word.
        let words = case
            .split(' ')
            .map(|word| if word == "''" { "" } else { word });
        let is_variable = |word: &&str| word.split('=').next().is_some_and(is_name);
        let variables: Vec<&str> = words.clone().take_while(is_variable).collect();
        let mut command = place.hotcell(words.skip(variables.len()));
        command.envs(variables.iter().filter_map(|word| word.split_once('=')));
        let output = run(&mut command);
        assert_code(&output, 2);
        assert_eq!(output.stdout, b"", "{case}");
        assert_eq!(place.everything(), before, "{case}");
        let said = stderr(&output).replace(place.home().to_str().unwrap(), "HOME");
        let lines: Vec<&str> = said.lines().collect();
        assert!(matches!(lines.len(), 1 | 2), "{case}: {said}");
        assert!(lines[0].starts_with("hotcell: "), "{case}: {said}");
        assert!(
            lines[1..].iter().all(|line| line.starts_with("hint: ")),
            "{case}: {said}"
        );
        all.push_str(&format!("$ {case}\n{said}\n"));
    }
    all
}

fn is_name(word: &str) -> bool {
    word.chars()
        .all(|letter| letter.is_ascii_uppercase() || letter == '_')
        && !word.is_empty()
}

#[test]
fn folders() {
    let said = errors_for(&[
        "exec --workspace missing -- true",
        "exec --workspace missing/deeper -- true",
        "exec --workspace file -- true",
        "exec --workspace file/below -- true",
        "exec --workspace / -- true",
        "exec --workspace folder/../../../../../../../.. -- true",
        "exec --workspace '' -- true",
        "SAFEDIR=/ exec -- true",
        "SAFEDIR=file exec -- true",
        "SAFEDIR=file/below exec -- true",
        "exec --rootfs missing -- true",
        "exec --rootfs file -- true",
        "exec --audit folder -- true",
        "exec --audit file/below -- true",
        "exec --audit a --no-audit -- true",
        "audit verify missing",
        "audit verify folder",
    ]);
    assert_snapshot!(said, @r"
        $ exec --workspace missing -- true
        hotcell: cannot use `missing` for --workspace: there is no such folder
        hint: name an existing folder, or `mkdir -p missing`

        $ exec --workspace missing/deeper -- true
        hotcell: cannot use `missing/deeper` for --workspace: there is no such folder
        hint: name an existing folder, or `mkdir -p missing/deeper`

        $ exec --workspace file -- true
        hotcell: cannot use `file` for --workspace: it is not a folder
        hint: name a folder

        $ exec --workspace file/below -- true
        hotcell: cannot use `file/below` for --workspace: Not a directory (os error 20)
        hint: name another folder

        $ exec --workspace / -- true
        hotcell: the workspace is `/`: that would show the whole machine to the sandbox
        hint: name a project folder

        $ exec --workspace folder/../../../../../../../.. -- true
        hotcell: the workspace is `/`: that would show the whole machine to the sandbox
        hint: name a project folder

        $ exec --workspace '' -- true
        hotcell: a value is required for '--workspace <FOLDER>' but none was supplied
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ SAFEDIR=/ exec -- true
        hotcell: the workspace is `/`: that would show the whole machine to the sandbox
        hint: name a project folder

        $ SAFEDIR=file exec -- true
        hotcell: cannot use `file` for SAFEDIR: it is not a folder
        hint: name a folder

        $ SAFEDIR=file/below exec -- true
        hotcell: cannot create the workspace `file/below`: `file` is not a folder
        hint: name another with `--workspace`

        $ exec --rootfs missing -- true
        hotcell: cannot use `missing` for --rootfs: there is no such folder
        hint: name an existing folder, or `mkdir -p missing`

        $ exec --rootfs file -- true
        hotcell: cannot use `file` for --rootfs: it is not a folder
        hint: name a folder

        $ exec --audit folder -- true
        hotcell: cannot open the audit log `folder`: Is a directory (os error 21)
        hint: choose a file with `--audit FILE`, or `--no-audit`

        $ exec --audit file/below -- true
        hotcell: cannot create the folder of the audit log `file/below`: File exists (os error 17)
        hint: choose a file with `--audit FILE`, or `--no-audit`

        $ exec --audit a --no-audit -- true
        hotcell: the argument '--audit <FILE>' cannot be used with '--no-audit'
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ audit verify missing
        hotcell: cannot open the audit log `missing`: No such file or directory (os error 2)
        hint: name an audit log, such as `audit.jsonl`

        $ audit verify folder
        hotcell: cannot use `folder` as an audit log: it is not a regular file
        hint: name an audit log, such as `audit.jsonl`
    ");
}

#[test]
fn values() {
    let said = errors_for(&[
        "exec --memory lots -- true",
        "exec --memory 1.5G -- true",
        "exec --memory -1M -- true",
        "exec --memory 12k -- true",
        "exec --memory '' -- true",
        "exec --memory 99999999999T -- true",
        "exec --disk 1X -- true",
        "exec --max-output 0 -- true",
        "exec --cpus 0 -- true",
        "exec --cpus many -- true",
        "exec --cpus nan -- true",
        "exec --pids 0 -- true",
        "exec --pids -5 -- true",
        "exec --pids 1.5 -- true",
        "exec --open-files 3 -- true",
        "exec --timeout 0s -- true",
        "exec --timeout soon -- true",
        "exec --timeout 1y -- true",
        "exec --timeout 99999999999999999999h -- true",
        "exec --env novalue -- true",
        "exec --env =x -- true",
        "exec --allow-net https://example.com -- true",
        "exec --allow-net * -- true",
        "exec --allow-net '' -- true",
        "exec --allow-net a.com:99999 -- true",
        "exec --allow-net 0x7f.1:80 -- true",
    ]);
    assert_snapshot!(said, @r"
        $ exec --memory lots -- true
        hotcell: invalid value 'lots' for '--memory <SIZE>': a size is a number with K, M, G or T, such as `512M`
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --memory 1.5G -- true
        hotcell: invalid value '1.5G' for '--memory <SIZE>': a size is a whole number with K, M, G or T, such as `512M`
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --memory -1M -- true
        hotcell: unexpected argument '-1' found
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --memory 12k -- true
        hotcell: invalid value '12k' for '--memory <SIZE>': the smallest size is `1M`
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --memory '' -- true
        hotcell: invalid value '' for '--memory <SIZE>': a size is a whole number with K, M, G or T, such as `512M`
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --memory 99999999999T -- true
        hotcell: invalid value '99999999999T' for '--memory <SIZE>': this size is too large
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --disk 1X -- true
        hotcell: invalid value '1X' for '--disk <SIZE>': a size is a number with K, M, G or T, such as `512M`
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --max-output 0 -- true
        hotcell: invalid value '0' for '--max-output <SIZE>': the smallest size is `1M`
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --cpus 0 -- true
        hotcell: invalid value '0' for '--cpus <NUMBER>': the CPU limit is a number from 0.01 on, such as `1` or `0.5`
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --cpus many -- true
        hotcell: invalid value 'many' for '--cpus <NUMBER>': the CPU limit is a number from 0.01 on, such as `1` or `0.5`
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --cpus nan -- true
        hotcell: invalid value 'nan' for '--cpus <NUMBER>': the CPU limit is a number from 0.01 on, such as `1` or `0.5`
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --pids 0 -- true
        hotcell: invalid value '0' for '--pids <NUMBER>': processes are a number from 1 to 1000000
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --pids -5 -- true
        hotcell: unexpected argument '-5' found
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --pids 1.5 -- true
        hotcell: invalid value '1.5' for '--pids <NUMBER>': processes are a number from 1 to 1000000
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --open-files 3 -- true
        hotcell: invalid value '3' for '--open-files <NUMBER>': open files are a number from 16 to 1000000
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --timeout 0s -- true
        hotcell: invalid value '0s' for '--timeout <TIME>': a time must be greater than 0
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --timeout soon -- true
        hotcell: invalid value 'soon' for '--timeout <TIME>': a time is a whole number with ms, s, m, h or d, such as `30s`
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --timeout 1y -- true
        hotcell: invalid value '1y' for '--timeout <TIME>': a time is a whole number with ms, s, m, h or d, such as `30s`
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --timeout 99999999999999999999h -- true
        hotcell: invalid value '99999999999999999999h' for '--timeout <TIME>': a time is a whole number with ms, s, m, h or d, such as `30s`
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --env novalue -- true
        hotcell: invalid value 'novalue' for '--env <NAME=VALUE>': a variable is written `NAME=VALUE`
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --env =x -- true
        hotcell: invalid value '=x' for '--env <NAME=VALUE>': a variable is written `NAME=VALUE`
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --allow-net https://example.com -- true
        hotcell: cannot allow `https://example.com`: write a host such as `example.com`, without scheme or path
        hint: write `example.com`, `*.example.com` or `host:port`

        $ exec --allow-net * -- true
        hotcell: cannot allow `*`: a `*` can only stand for subdomains, as in `*.example.com`
        hint: write `example.com`, `*.example.com` or `host:port`

        $ exec --allow-net '' -- true
        hotcell: cannot allow ``: the host is empty
        hint: write `example.com`, `*.example.com` or `host:port`

        $ exec --allow-net a.com:99999 -- true
        hotcell: cannot allow `a.com:99999`: the port is not a number from 1 to 65535
        hint: write `example.com`, `*.example.com` or `host:port`

        $ exec --allow-net 0x7f.1:80 -- true
        hotcell: cannot allow `0x7f.1:80`: write the address as `127.0.0.1`
        hint: write `example.com`, `*.example.com` or `host:port`
    ");
}

#[test]
fn commands_and_flags() {
    let said = errors_for(&[
        "exec",
        "exec --",
        "exec -- ''",
        "exec true",
        "exec --memry 1G -- true",
        "exec --nonsense -- true",
        "exec --memory",
        "exec --memory 1G --memory 2G -- true",
        "exec -x -- true",
        "exce -- true",
        "nonsense",
        "doctor nonsense",
        "audit nonsense",
        "completions tcsh",
        "completions",
    ]);
    assert_snapshot!(said, @r"
        $ exec
        hotcell: the following required arguments were not provided: <COMMAND>...
        hint: write the command after `--`, such as `hotcell exec -- ls`

        $ exec --
        hotcell: the following required arguments were not provided: <COMMAND>...
        hint: write the command after `--`, such as `hotcell exec -- ls`

        $ exec -- ''
        hotcell: the command is empty
        hint: write it after `--`, such as `hotcell exec -- ls`

        $ exec true
        hotcell: unexpected argument 'true' found
        hint: write the command after `--`, such as `hotcell exec -- ls`

        $ exec --memry 1G -- true
        hotcell: unexpected argument '--memry' found
        hint: did you mean `--memory`?

        $ exec --nonsense -- true
        hotcell: unexpected argument '--nonsense' found
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --memory
        hotcell: a value is required for '--memory <SIZE>' but none was supplied
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --memory 1G --memory 2G -- true
        hotcell: the argument '--memory <SIZE>' cannot be used multiple times
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec -x -- true
        hotcell: unexpected argument '-x' found
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exce -- true
        hotcell: unrecognized subcommand 'exce'
        hint: did you mean `exec`?

        $ nonsense
        hotcell: unrecognized subcommand 'nonsense'
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ doctor nonsense
        hotcell: unexpected argument 'nonsense' found
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ audit nonsense
        hotcell: unrecognized subcommand 'nonsense'
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ completions tcsh
        hotcell: invalid value 'tcsh' for '<SHELL>'
        hint: one of bash, elvish, fish, powershell, zsh

        $ completions
        hotcell: the following required arguments were not provided: <SHELL>
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage
    ");
}

#[test]
fn walls() {
    let said = errors_for(&[
        "exec --backend lxc -- true",
        "exec --backend '' -- true",
        "exec --backend none --allow-net example.com -- true",
        "exec --backend none --rootfs folder -- true",
        "USE_SANDBOX=false exec --allow-net example.com -- true",
        "USE_SANDBOX=maybe exec -- true",
        "USE_SANDBOX=FALSE exec -- true",
    ]);
    assert_snapshot!(said, @r"
        $ exec --backend lxc -- true
        hotcell: invalid value 'lxc' for '--backend <WALLS>'
        hint: one of auto, native, podman, docker, gvisor, microvm, firecracker, microsandbox, none

        $ exec --backend '' -- true
        hotcell: a value is required for '--backend <WALLS>' but none was supplied
        hint: one of auto, native, podman, docker, gvisor, microvm, firecracker, microsandbox, none

        $ exec --backend none --allow-net example.com -- true
        hotcell: `--allow-net` requires walls
        hint: drop it, or drop `--backend none`

        $ exec --backend none --rootfs folder -- true
        hotcell: `--rootfs` requires walls
        hint: drop it, or drop `--backend none`

        $ USE_SANDBOX=false exec --allow-net example.com -- true
        hotcell: `--allow-net` requires walls
        hint: drop it, or drop `--backend none`

        $ USE_SANDBOX=maybe exec -- true
        hotcell: `USE_SANDBOX` from environment is `maybe`: it must be true or false
        hint: `hotcell config` shows all settings and where they come from

        $ USE_SANDBOX=FALSE exec -- true
        hotcell: `USE_SANDBOX` from environment is `FALSE`: it must be true or false
        hint: `hotcell config` shows all settings and where they come from
    ");
}

#[test]
fn servers_and_keys() {
    let said = errors_for(&[
        "serve --listen here",
        "serve --concurrency 0",
        "serve --job-timeout never",
        "serve --backend none",
        "USE_SANDBOX=false serve",
        "serve --allow-net http://example.com",
        "serve --memory lots",
        "keys create",
        "keys create --user ''",
        "keys create --user ada --role king",
        "keys revoke nonsense",
    ]);
    assert_snapshot!(said, @r"
        $ serve --listen here
        hotcell: invalid value 'here' for '--listen <ADDRESS>': invalid socket address syntax
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ serve --concurrency 0
        hotcell: invalid value '0' for '--concurrency <NUMBER>': it must be a whole number from 1 on
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ serve --job-timeout never
        hotcell: invalid value 'never' for '--job-timeout <TIME>': a time is a whole number with ms, s, m, h or d, such as `30s`
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ serve --backend none
        hotcell: a server requires a sandbox
        hint: drop `--backend none`, or USE_SANDBOX=false

        $ USE_SANDBOX=false serve
        hotcell: a server requires a sandbox
        hint: drop `--backend none`, or USE_SANDBOX=false

        $ serve --allow-net http://example.com
        hotcell: cannot allow `http://example.com`: write a host such as `example.com`, without scheme or path
        hint: write `example.com`, `*.example.com` or `host:port`

        $ serve --memory lots
        hotcell: invalid value 'lots' for '--memory <SIZE>': a size is a number with K, M, G or T, such as `512M`
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ keys create
        hotcell: the following required arguments were not provided: --user <NAME>
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ keys create --user ''
        hotcell: a value is required for '--user <NAME>' but none was supplied
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ keys create --user ada --role king
        hotcell: invalid value 'king' for '--role <ROLE>'
        hint: one of admin, user

        $ keys revoke nonsense
        hotcell: invalid value 'nonsense' for '<ID>': invalid character: found `n` at 0
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage
    ");
}

#[test]
fn half_a_command_is_answered_with_help() {
    let output = run(&mut Place::new().hotcell(["audit"]));
    assert_code(&output, 2);
    assert!(stderr(&output).contains("Usage: hotcell"), "{output:?}");
}

#[test]
fn flags_of_the_chat() {
    let said = errors_for(&[
        "--lod x",
        "--load",
        "--load x --continue",
        "--plain run x",
        "--server",
        "--server nowhere",
        "--memory lots",
        "--json",
        "ANTHROPIC_API_KEY=k --workspace missing",
        "ANTHROPIC_API_KEY=k --max-cost 1 --model claude-unknown",
        "--model openai/x",
    ]);
    assert_snapshot!(said, @r"
        $ --lod x
        hotcell: unexpected argument '--lod' found
        hint: did you mean `--load`?

        $ --load
        hotcell: a value is required for '--load <SESSION>' but none was supplied
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ --load x --continue
        hotcell: the argument '--load <SESSION>' cannot be used with '--continue'
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ --plain run x
        hotcell: the subcommand 'run' cannot be used with '--plain'
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ --server
        hotcell: a value is required for '--server <URL>' but none was supplied
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ --server nowhere
        hotcell: the server's address from flag is `nowhere`
        hint: write it as `https://HOST` or `http://HOST:PORT`

        $ --memory lots
        hotcell: invalid value 'lots' for '--memory <SIZE>': a size is a number with K, M, G or T, such as `512M`
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ --json
        hotcell: unexpected argument '--json' found
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ ANTHROPIC_API_KEY=k --workspace missing
        hotcell: cannot use `missing` for --workspace: there is no such folder
        hint: name an existing folder, or `mkdir -p missing`

        $ ANTHROPIC_API_KEY=k --max-cost 1 --model claude-unknown
        hotcell: the price of `claude-unknown` is unknown, so `--max-cost` cannot be enforced
        hint: use `--max-tokens-total`, or name its price in the settings file under `prices`

        $ --model openai/x
        hotcell: an `openai/…` model requires a base URL
        hint: set it, such as `--base-url http://127.0.0.1:11434`
    ");
}
