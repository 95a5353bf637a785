//! Bad input for the commands about agents and sessions: one line, a hint, code 2, no change.

use insta::assert_snapshot;

use crate::bad_input::errors_for;

#[test]
fn tasks_and_budgets() {
    let said = errors_for(&[
        "run",
        "run ''",
        "run one two",
        "run --max-tokens 0 Answer",
        "run --max-tokens many Answer",
        "run --thinking -5 Answer",
        "run --max-cost free Answer",
        "run --max-cost 0 Answer",
        "run --max-cost NaN Answer",
        "run --max-tokens-total 1.5 Answer",
        "run --max-turns 0 Answer",
        "run --max-time soon Answer",
        "run --max-time 0s Answer",
        "run --max-coast 1 Answer",
        "ANTHROPIC_API_KEY=k run --workspace missing Answer",
        "demo --workspace missing",
        "run --fork Answer",
        "demo Answer",
    ]);
    assert_snapshot!(said, @r#"
        $ run
        hotcell: the following required arguments were not provided: <PROMPT>
        hint: quote the task, such as `hotcell run "Fix the tests"`

        $ run ''
        hotcell: the prompt is empty
        hint: give a task, such as `hotcell run "Fix the tests"`

        $ run one two
        hotcell: unexpected argument 'two' found
        hint: quote the task, such as `hotcell run "Fix the tests"`

        $ run --max-tokens 0 Answer
        hotcell: invalid value '0' for '--max-tokens <NUMBER>': it must be a whole number from 1 on
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ run --max-tokens many Answer
        hotcell: invalid value 'many' for '--max-tokens <NUMBER>': it must be a whole number from 1 on
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ run --thinking -5 Answer
        hotcell: unexpected argument '-5' found
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ run --max-cost free Answer
        hotcell: invalid value 'free' for '--max-cost <DOLLARS>': a cost is a number of US dollars above 0, such as `0.50`
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ run --max-cost 0 Answer
        hotcell: invalid value '0' for '--max-cost <DOLLARS>': a cost is a number of US dollars above 0, such as `0.50`
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ run --max-cost NaN Answer
        hotcell: invalid value 'NaN' for '--max-cost <DOLLARS>': a cost is a number of US dollars above 0, such as `0.50`
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ run --max-tokens-total 1.5 Answer
        hotcell: invalid value '1.5' for '--max-tokens-total <NUMBER>': it must be a whole number from 1 on
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ run --max-turns 0 Answer
        hotcell: invalid value '0' for '--max-turns <NUMBER>': it must be a whole number from 1 on
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ run --max-time soon Answer
        hotcell: invalid value 'soon' for '--max-time <TIME>': a time is a whole number with ms, s, m, h or d, such as `30s`
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ run --max-time 0s Answer
        hotcell: invalid value '0s' for '--max-time <TIME>': a time must be greater than 0
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ run --max-coast 1 Answer
        hotcell: unexpected argument '--max-coast' found
        hint: did you mean `--max-cost`?

        $ ANTHROPIC_API_KEY=k run --workspace missing Answer
        hotcell: cannot use `missing` for --workspace: there is no such folder
        hint: name an existing folder, or `mkdir -p missing`

        $ demo --workspace missing
        hotcell: cannot use `missing` for --workspace: there is no such folder
        hint: name an existing folder, or `mkdir -p missing`

        $ run --fork Answer
        hotcell: unexpected argument '--fork' found
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ demo Answer
        hotcell: unexpected argument 'Answer' found
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage
    "#);
}

#[test]
fn models() {
    let said = errors_for(&[
        "run Answer",
        "ANTHROPIC_API_KEY= run Answer",
        "run --model openai/x Answer",
        "run --model openai/x --base-url nowhere Answer",
        "run --model scripted/missing.toml Answer",
        "ANTHROPIC_API_KEY=k MAX_TOKENS=none run Answer",
        "ANTHROPIC_API_KEY=k run --thinking 10 Answer",
        "ANTHROPIC_API_KEY=k run --thinking 9000 Answer",
        "ANTHROPIC_API_KEY=k run --base-url ftp://example.com Answer",
        "ANTHROPIC_API_KEY=k run --base-url http:// Answer",
        "ANTHROPIC_API_KEY=k run --model unheard-of --max-cost 1 Answer",
        "ANTHROPIC_API_KEY=k run --model '' Answer",
        "ANTHROPIC_API_KEY=k run --data workspace Answer",
        "ANTHROPIC_API_KEY=k run --config missing Answer",
        "ANTHROPIC_API_KEY=k run --config folder Answer",
        "ANTHROPIC_API_KEY=k USE_SANDBOX=maybe run Answer",
    ]);
    assert_snapshot!(said, @r#"
        $ run Answer
        hotcell: ANTHROPIC_API_KEY is not set
        hint: set it in the environment (`export ANTHROPIC_API_KEY=…`), in `.env` in this folder, or in `HOME/.config/hotcell/config.toml` (`[anthropic]`, `api_key = "…"`); `hotcell demo` needs none

        $ ANTHROPIC_API_KEY= run Answer
        hotcell: ANTHROPIC_API_KEY is not set
        hint: set it in the environment (`export ANTHROPIC_API_KEY=…`), in `.env` in this folder, or in `HOME/.config/hotcell/config.toml` (`[anthropic]`, `api_key = "…"`); `hotcell demo` needs none

        $ run --model openai/x Answer
        hotcell: an `openai/…` model requires a base URL
        hint: set it, such as `--base-url http://127.0.0.1:11434`

        $ run --model openai/x --base-url nowhere Answer
        hotcell: the provider's address from flag is `nowhere`
        hint: write it as `https://HOST` or `http://HOST:PORT`

        $ run --model scripted/missing.toml Answer
        hotcell: cannot read the script `missing.toml`: No such file or directory (os error 2)
        hint: `scripted/FILE` names a file of scripted replies

        $ ANTHROPIC_API_KEY=k MAX_TOKENS=none run Answer
        hotcell: `MAX_TOKENS` from environment is `none`: it must be a whole number from 1 on
        hint: `hotcell config` shows all settings and where they come from

        $ ANTHROPIC_API_KEY=k run --thinking 10 Answer
        hotcell: `thinking` must be from 1024 to below `max_tokens` (8096)
        hint: choose another `--thinking`, or raise `--max-tokens`

        $ ANTHROPIC_API_KEY=k run --thinking 9000 Answer
        hotcell: `thinking` must be from 1024 to below `max_tokens` (8096)
        hint: choose another `--thinking`, or raise `--max-tokens`

        $ ANTHROPIC_API_KEY=k run --base-url ftp://example.com Answer
        hotcell: the provider's address from flag is `ftp://example.com`
        hint: write it as `https://HOST` or `http://HOST:PORT`

        $ ANTHROPIC_API_KEY=k run --base-url http:// Answer
        hotcell: the provider's address from flag is `http://`
        hint: write it as `https://HOST` or `http://HOST:PORT`

        $ ANTHROPIC_API_KEY=k run --model unheard-of --max-cost 1 Answer
        hotcell: the price of `unheard-of` is unknown, so `--max-cost` cannot be enforced
        hint: use `--max-tokens-total`, or name its price in the settings file under `prices`

        $ ANTHROPIC_API_KEY=k run --model '' Answer
        hotcell: a value is required for '--model <NAME>' but none was supplied
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ ANTHROPIC_API_KEY=k run --data workspace Answer
        hotcell: the session store `workspace` lies inside the workspace
        hint: a sandbox could rewrite it: choose another folder with `--data FOLDER`

        $ ANTHROPIC_API_KEY=k run --config missing Answer
        hotcell: cannot read the settings `missing`: No such file or directory (os error 2)

        $ ANTHROPIC_API_KEY=k run --config folder Answer
        hotcell: cannot read the settings `folder`: it is a folder

        $ ANTHROPIC_API_KEY=k USE_SANDBOX=maybe run Answer
        hotcell: `USE_SANDBOX` from environment is `maybe`: it must be true or false
        hint: `hotcell config` shows all settings and where they come from
    "#);
}

#[test]
fn sessions() {
    let said = errors_for(&[
        "sessions shew",
        "sessions show",
        "sessions search",
        "sessions delete",
        "sessions export",
        "sessions -n many",
        "replay",
        "resume a b",
        "undo a b",
        "resume --prompt ''",
        "config --modell x",
    ]);
    assert_snapshot!(said, @r#"
        $ sessions shew
        hotcell: unrecognized subcommand 'shew'
        hint: did you mean `show`?

        $ sessions show
        hotcell: the following required arguments were not provided: <SESSION>
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ sessions search
        hotcell: the following required arguments were not provided: <WORDS>...
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ sessions delete
        hotcell: the following required arguments were not provided: <SESSION>...
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ sessions export
        hotcell: the following required arguments were not provided: <SESSION>
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ sessions -n many
        hotcell: invalid value 'many' for '--limit <NUMBER>': it must be a whole number; 0 means all
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ replay
        hotcell: the following required arguments were not provided: <SESSION>
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ resume a b
        hotcell: unexpected argument 'b' found
        hint: give a prompt with `--prompt`, in quotes

        $ undo a b
        hotcell: unexpected argument 'b' found
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ resume --prompt ''
        hotcell: the prompt is empty
        hint: give a task, such as `hotcell run "Fix the tests"`

        $ config --modell x
        hotcell: unexpected argument '--modell' found
        hint: did you mean `--model`?
    "#);
}
