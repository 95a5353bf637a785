//! The documents agree with the program: commands in code blocks run, their flags exist, and relative
//! links lead to a file and a heading.
//!
//! In a `sh` block every line is a command. In a `console` block the lines after `$ ` are commands and
//! the others are output. A line that ends with `\` continues on the next one. Each command gets a shell
//! of its own; the commands of a block share a folder and a home, and find a copy of `examples` there.
//! The line before a block may be a mark: `<!-- not run: reason -->`, or `<!-- exit N -->` if its
//! commands exit with another code than 0.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::place::{Place, assert_code, hotcell, run, stdout};

#[test]
fn commands_run() {
    let documents = with_commands();
    let failures: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = documents
            .iter()
            .map(|document| scope.spawn(move || run_blocks(document)))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn flags_exist() {
    let mut help = Help::default();
    let mut problems = Vec::new();
    let mut checked = 0;
    for document in with_commands() {
        for block in document.blocks() {
            for (line, command) in block.commands() {
                for words in simple_commands(&command) {
                    let Some(arguments) = arguments_of_hotcell(&words) else {
                        continue;
                    };
                    checked += 1;
                    if let Err(problem) = help.check(&arguments) {
                        problems.push(format!("{}:{line}: {problem}", document.name.display()));
                    }
                }
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(checked > 20, "only {checked} commands found");
}

#[test]
fn blocks_have_a_language() {
    const LANGUAGES: [&str; 5] = ["console", "json", "sh", "text", "toml"];
    for document in with_commands() {
        for block in document.blocks() {
            assert!(
                LANGUAGES.contains(&block.language),
                "{}:{}: a block of `{}`, not of {LANGUAGES:?}",
                document.name.display(),
                block.line,
                block.language
            );
        }
    }
}

#[test]
fn links_lead_somewhere() {
    let root = root();
    let mut names: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"]
        .map(PathBuf::from)
        .into();
    add_below(&root, Path::new("docs"), &mut names);
    let mut problems = Vec::new();
    let mut checked = 0;
    for name in names {
        let document = Document::read(&root, name);
        for (line, target) in links(&document.text) {
            checked += 1;
            if let Err(problem) = check_link(&root, &document, &target) {
                let name = document.name.display();
                problems.push(format!("{name}:{line}: `{target}`: {problem}"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(checked > 20, "only {checked} links found");
}

#[test]
fn shell_lines_are_split_into_commands() {
    let check = |line: &str, expected: &[&[&str]]| {
        let commands = simple_commands(line);
        assert_eq!(commands, expected, "{line}");
    };
    check("a 'b c' \"d | e\"", &[&["a", "b c", "d | e"]]);
    check("a | b; c && d # e", &[&["a"], &["b"], &["c"], &["d"]]);
    check("X=$(a b) c", &[&["X=$"], &["a", "b"], &["c"]]);
    check("a \\\n  --b '' \\$c", &[&["a", "--b", "", "$c"]]);
    check("", &[]);
}

#[test]
fn headings_become_anchors() {
    let check = |heading: &str, expected: &str| assert_eq!(anchor(heading), expected);
    check("What it protects from", "what-it-protects-from");
    check("`.env`", "env");
    check("Walls, `--backend`: one_two", "walls---backend-one_two");
}

/// A Markdown file; its name is relative to the root of the repository.
struct Document {
    name: PathBuf,
    text: String,
}

/// A fenced block of code.
struct Block<'a> {
    /// Number of the line with the opening fence.
    line: usize,
    language: &'a str,
    mark: Mark,
    lines: Vec<(usize, &'a str)>,
}

enum Mark {
    NotRun,
    Exit(i32),
}

/// Tests run in the folder of their crate, here and in `scripts/test-as-user`.
fn root() -> PathBuf {
    fs::canonicalize("../..").unwrap()
}

/// The documents whose commands are checked.
fn with_commands() -> Vec<Document> {
    let root = root();
    let mut names = Vec::new();
    add_below(&root, Path::new("docs"), &mut names);
    names.retain(|name| name.parent() == Some(Path::new("docs")));
    names.push("README.md".into());
    names
        .into_iter()
        .map(|name| Document::read(&root, name))
        .collect()
}

/// Adds the Markdown files below a folder.
fn add_below(root: &Path, folder: &Path, names: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = folder.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            add_below(root, &name, names);
        } else if name.extension().is_some_and(|extension| extension == "md") {
            names.push(name);
        }
    }
}

impl Document {
    fn read(root: &Path, name: PathBuf) -> Self {
        let text = fs::read_to_string(root.join(&name)).unwrap();
        Self { name, text }
    }

    fn blocks(&self) -> Vec<Block<'_>> {
        let mut blocks = Vec::new();
        let mut before = "";
        let mut lines = (1..).zip(self.text.lines());
        while let Some((line, text)) = lines.next() {
            if let Some(language) = text.strip_prefix("```") {
                let content = lines.by_ref();
                blocks.push(Block {
                    line,
                    language,
                    mark: Mark::parse(before),
                    lines: content.take_while(|(_, text)| *text != "```").collect(),
                });
            }
            before = text;
        }
        blocks
    }
}

impl Mark {
    fn parse(line: &str) -> Self {
        let words = line
            .strip_prefix("<!-- ")
            .and_then(|rest| rest.strip_suffix(" -->"))
            .unwrap_or_default();
        if words.starts_with("not run: ") {
            Self::NotRun
        } else if let Some(code) = words.strip_prefix("exit ") {
            Self::Exit(code.parse().unwrap())
        } else {
            Self::Exit(0)
        }
    }
}

impl Block<'_> {
    /// Each command with the number of its first line.
    fn commands(&self) -> Vec<(usize, String)> {
        let mut commands: Vec<(usize, String)> = Vec::new();
        let mut continues = false;
        for (number, line) in &self.lines {
            let start = match self.language {
                "sh" => Some(*line),
                "console" => line.strip_prefix("$ "),
                _ => None,
            };
            if continues {
                let (_, command) = commands.last_mut().unwrap();
                command.push('\n');
                command.push_str(line);
            } else if let Some(start) = start.filter(|start| is_command(start)) {
                commands.push((*number, start.to_owned()));
            } else {
                continue;
            }
            continues = line.ends_with('\\');
        }
        commands
    }
}

fn is_command(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with('#')
}

/// Runs the commands of a document. Returns a message for each that fails; the rest of its block is then
/// left out.
fn run_blocks(document: &Document) -> Vec<String> {
    let mut failures = Vec::new();
    for block in document.blocks() {
        let Mark::Exit(expected) = block.mark else {
            continue;
        };
        let place = place_with_examples();
        for (line, command) in block.commands() {
            let output = run(&mut shell(&place, &command));
            if output.status.code() != Some(expected) {
                failures.push(format!(
                    "{}:{line}: `{command}`: {}, expected exit code {expected}\n{}{}",
                    document.name.display(),
                    output.status,
                    String::from_utf8_lossy(&output.stdout),
                    String::from_utf8_lossy(&output.stderr)
                ));
                break;
            }
        }
    }
    failures
}

fn place_with_examples() -> Place {
    let place = Place::new();
    let examples = place.here("examples");
    fs::create_dir(&examples).unwrap();
    for entry in fs::read_dir(root().join("examples")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), examples.join(entry.file_name())).unwrap();
    }
    let programs = programs(&place);
    fs::create_dir(&programs).unwrap();
    let program = fs::canonicalize(hotcell()).unwrap();
    symlink(program, programs.join("hotcell")).unwrap();
    place
}

/// The first folder of `PATH`.
fn programs(place: &Place) -> PathBuf {
    place.home().with_file_name("programs")
}

fn shell(place: &Place, command: &str) -> Command {
    let programs = programs(place);
    let mut shell = place.program("/bin/sh");
    shell.args(["-c", command]).env(
        "PATH",
        format!(
            "{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            programs.display()
        ),
    );
    shell
}

/// Splits a line of shell into commands and those into words without quotes. Knows quotes, comments and
/// what separates commands; commands inside double quotes are words.
fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let mut commands: Vec<Vec<String>> = Vec::new();
    let mut command: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if let Some(end) = quote {
            if character == end {
                quote = None;
            } else {
                word.get_or_insert_default().push(character);
            }
            continue;
        }
        match character {
            '\'' | '"' => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            '\\' => match characters.next() {
                Some('\n') | None => command.extend(word.take()),
                Some(escaped) => word.get_or_insert_default().push(escaped),
            },
            '#' if word.is_none() => break,
            '|' | ';' | '&' | '(' | ')' => {
                command.extend(word.take());
                commands.push(std::mem::take(&mut command));
            }
            _ if character.is_whitespace() => command.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    command.extend(word.take());
    commands.push(command);
    commands.retain(|command| !command.is_empty());
    commands
}

/// What `hotcell` itself is given, without a command after `--`. `None` for other programs.
fn arguments_of_hotcell(words: &[String]) -> Option<Vec<&str>> {
    let mut words = words
        .iter()
        .map(String::as_str)
        .skip_while(|word| is_assignment(word));
    if words.next() != Some("hotcell") {
        return None;
    }
    Some(words.take_while(|word| *word != "--").collect())
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && name
                .chars()
                .all(|one| one.is_ascii_alphanumeric() || one == '_')
    })
}

/// Help pages by subcommand.
#[derive(Default)]
struct Help {
    pages: BTreeMap<Vec<String>, String>,
}

impl Help {
    fn page(&mut self, subcommand: &[&str]) -> &str {
        let name: Vec<String> = subcommand.iter().map(|word| (*word).to_owned()).collect();
        self.pages.entry(name).or_insert_with(|| {
            let arguments = subcommand.iter().copied().chain(["--help"]);
            let output = run(&mut Place::new().hotcell(arguments));
            assert_code(&output, 0);
            stdout(&output)
        })
    }

    /// Looks for the subcommand and the long flags of a command.
    fn check(&mut self, arguments: &[&str]) -> Result<(), String> {
        let mut depth = 0;
        loop {
            let known = subcommands(self.page(&arguments[..depth]));
            match arguments.get(depth) {
                Some(word) if known.contains(*word) => depth += 1,
                Some(word) if !known.is_empty() && !word.starts_with('-') => {
                    return Err(format!("there is no subcommand `{word}`"));
                }
                _ => break,
            }
        }
        let subcommand = &arguments[..depth];
        let page = self.page(subcommand);
        for argument in &arguments[depth..] {
            let flag = argument.split('=').next().unwrap_or_default();
            if flag.starts_with("--") && !declares(page, flag) {
                let name = subcommand.join(" ");
                return Err(format!("`hotcell {name}` has no flag `{flag}`"));
            }
        }
        Ok(())
    }
}

/// The names under `Commands:`.
fn subcommands(page: &str) -> BTreeSet<String> {
    page.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

/// Whether a line of the page begins with this flag, perhaps after its short form.
fn declares(page: &str, flag: &str) -> bool {
    page.lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with('-'))
        .any(|line| line.split([' ', ',']).any(|word| word == flag))
}

/// Targets of links and pictures outside code blocks, with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in outside_blocks(text) {
        let mut rest = line;
        while let Some((_, after)) = rest.split_once("](") {
            let target = after.split([')', ' ']).next().unwrap_or_default();
            links.push((number, target.to_owned()));
            rest = after;
        }
    }
    links
}

fn outside_blocks(text: &str) -> Vec<(usize, &str)> {
    let mut is_inside = false;
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            is_inside = !is_inside;
        } else if !is_inside {
            lines.push((number, line));
        }
    }
    lines
}

fn check_link(root: &Path, document: &Document, target: &str) -> Result<(), String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(());
    }
    let (path, heading) = match target.split_once('#') {
        Some((path, heading)) => (path, Some(heading)),
        None => (target, None),
    };
    let folder = document.name.parent().unwrap();
    let name = if path.is_empty() {
        document.name.clone()
    } else {
        folder.join(path)
    };
    let file = root.join(name);
    if !file.exists() {
        return Err("there is no such file".to_owned());
    }
    let Some(heading) = heading else {
        return Ok(());
    };
    let text = fs::read_to_string(&file).unwrap();
    let anchors = anchors(&text);
    if anchors.contains(heading) {
        Ok(())
    } else {
        Err(format!("there is no such heading; there are {anchors:?}"))
    }
}

/// The anchors of all headings. The second of the same name ends with `-1`, as on GitHub.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in outside_blocks(text) {
        let Some((marks, heading)) = line.split_once(' ') else {
            continue;
        };
        if marks.is_empty() || !marks.chars().all(|one| one == '#') {
            continue;
        }
        let first = anchor(heading);
        let mut name = first.clone();
        let mut count = 0;
        while !anchors.insert(name) {
            count += 1;
            name = format!("{first}-{count}");
        }
    }
    anchors
}

fn anchor(heading: &str) -> String {
    heading
        .trim()
        .to_lowercase()
        .chars()
        .filter(|one| one.is_alphanumeric() || [' ', '-', '_'].contains(one))
        .map(|one| if one == ' ' { '-' } else { one })
        .collect()
}
