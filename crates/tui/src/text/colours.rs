//! Knows languages, and colours code line by line.
//!
//! Reading the definitions costs tens of milliseconds and the first lines of a language some
//! more, so both happen on a thread of their own, begun by [`Colours::start`]. Until a language is
//! ready its code is plain; whenever one is, [`Colours::generation`] grows and the UI is woken.
//! Entry types: [`Colours`], [`Highlighter`].

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use syntect::parsing::{ParseState, ScopeStack, SyntaxReference, SyntaxSet};

use super::palette::{Palette, Part};
use crate::theme::Theme;

/// Names of languages that are remembered. Whoever makes up more gets plain code.
const MOST_LANGUAGES: usize = 256;
/// Lines that a language is tried out with.
const SAMPLE_LINES: usize = 64;
/// Lines with more bytes stay plain, and so does what follows them.
const LONGEST_LINE: usize = 2_000;

/// The languages. There is one for the whole program, and none in most tests.
pub(crate) struct Colours {
    loaded: OnceLock<Loaded>,
    languages: Mutex<HashMap<String, Language>>,
    generation: AtomicU64,
    wanted: Mutex<Option<Sender<Wanted>>>,
}

struct Loaded {
    set: SyntaxSet,
    palette: Palette,
}

#[derive(Debug, Clone, Copy)]
enum Language {
    Asked,
    Unknown,
    Ready,
}

/// A language that is to be made ready.
#[derive(Debug)]
struct Wanted {
    name: String,
    sample: String,
}

impl fmt::Debug for Colours {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Colours")
            .field("generation", &self.generation())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Highlighter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Highlighter")
            .field("is_lost", &self.is_lost)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Colours {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Colours {
    /// Begins the thread, which rests until there is code to colour. `wake` is called whenever
    /// there is something new to draw. Only the first call has an effect.
    pub(crate) fn start(wake: impl Fn() + Send + 'static) -> &'static Self {
        static COLOURS: OnceLock<Colours> = OnceLock::new();
        static STARTED: OnceLock<()> = OnceLock::new();
        let colours = COLOURS.get_or_init(Self::new);
        STARTED.get_or_init(|| {
            let (sender, receiver) = channel();
            let work = move || colours.work(&receiver, &wake);
            // Without a thread, code is plain. It holds nothing and ends with the program.
            if thread::Builder::new().name("colours".into()).spawn(work).is_ok() {
                *lock(&colours.wanted) = Some(sender);
            }
        });
        colours
    }

    fn new() -> Self {
        Self {
            loaded: OnceLock::new(),
            languages: Mutex::default(),
            generation: AtomicU64::new(0),
            wanted: Mutex::new(None),
        }
    }

    /// Grows whenever a language became ready: what was drawn plain can have colours now.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// For code from its first line on. `None` if it stays plain, or is plain for now: then the
    /// language is asked for, and the second value says so.
    pub(super) fn highlighter(
        &'static self,
        language: &str,
        code: &str,
    ) -> (Option<Highlighter>, bool) {
        let Some(name) = language_name(language) else {
            return (None, false);
        };
        let mut languages = lock(&self.languages);
        match languages.get(&name) {
            Some(Language::Ready) => (self.begin(&name), false),
            Some(Language::Unknown) => (None, false),
            Some(Language::Asked) => (None, true),
            None if languages.len() >= MOST_LANGUAGES => (None, false),
            None => {
                let sample = code.split_inclusive('\n').take(SAMPLE_LINES).collect();
                let wanted = Wanted {
                    name: name.clone(),
                    sample,
                };
                let is_asked = lock(&self.wanted)
                    .as_ref()
                    .is_some_and(|sender| sender.send(wanted).is_ok());
                let state = if is_asked { Language::Asked } else { Language::Unknown };
                languages.insert(name, state);
                (None, is_asked)
            }
        }
    }

    fn work(&'static self, wanted: &Receiver<Wanted>, wake: &impl Fn()) {
        while let Ok(Wanted { name, sample }) = wanted.recv() {
            self.prepare(&name, &sample);
            wake();
        }
    }

    fn prepare(&'static self, name: &str, sample: &str) {
        let loaded = self.loaded.get_or_init(|| Loaded {
            set: two_face::syntax::extra_newlines(),
            palette: Palette::new(),
        });
        let state = match find(&loaded.set, name) {
            Some(_) => Language::Ready,
            None => Language::Unknown,
        };
        if let Some(mut highlighter) = self.begin(name) {
            for line in sample.lines() {
                highlighter.line(line);
            }
        }
        lock(&self.languages).insert(name.to_owned(), state);
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    fn begin(&'static self, name: &str) -> Option<Highlighter> {
        let loaded = self.loaded.get()?;
        Some(Highlighter {
            loaded,
            state: ParseState::new(find(&loaded.set, name)?),
            stack: ScopeStack::new(),
            is_lost: false,
        })
    }

    /// With these languages ready from the beginning, and no others ever.
    #[cfg(test)]
    pub(crate) fn ready(names: &[&str]) -> &'static Self {
        let colours: &'static Self = Box::leak(Box::new(Self::new()));
        for name in names {
            colours.prepare(name, "");
        }
        colours
    }
}

/// What grows whenever code that was laid out with a theme can have more colours.
pub(crate) fn colours(theme: &Theme) -> u64 {
    theme.colours.map_or(0, Colours::generation)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Of what stands after a fence, or of a path: `Rust`, `rust,ignore` and `src/main.rs` are all
/// one language, the last by its own name.
fn language_name(tag: &str) -> Option<String> {
    let tag = tag.trim().trim_start_matches(['{', '.']);
    let end = tag.find([' ', ',', '{', '}', '\t']).unwrap_or(tag.len());
    let tag = &tag[..end];
    let file = tag.rsplit(['/', ':']).next().unwrap_or(tag);
    let is_named = !file.is_empty() && file.len() <= 64;
    is_named.then(|| file.to_ascii_lowercase())
}

fn find<'a>(set: &'a SyntaxSet, name: &str) -> Option<&'a SyntaxReference> {
    let token = match name {
        "console" | "shell" | "shellsession" | "sh-session" | "zsh" | "ksh" => "bash",
        "golang" => "go",
        "js" | "mjs" | "cjs" | "node" => "javascript",
        "jsx" => "tsx",
        "mts" | "cts" => "ts",
        "python3" | "py3" | "pycon" => "python",
        "jsonc" | "json5" | "jsonl" | "ndjson" => "json",
        "docker" | "containerfile" => "dockerfile",
        "patch" => "diff",
        "plaintext" | "plain" | "text" | "txt" => return None,
        name => name,
    };
    let extension = || token.rsplit_once('.').map(|(_, extension)| extension);
    set.find_syntax_by_token(token)
        .or_else(|| set.find_syntax_by_token(extension()?))
}

/// Colours the lines of one code, from the first on. Cheap to clone: a clone looks ahead.
#[derive(Clone)]
pub(super) struct Highlighter {
    loaded: &'static Loaded,
    state: ParseState,
    stack: ScopeStack,
    /// Something could not be read: the rest is plain.
    is_lost: bool,
}

impl Highlighter {
    /// The parts of the next line, which has no line end.
    pub(super) fn line<'a>(&mut self, line: &'a str) -> Vec<(&'a str, Part)> {
        if self.is_lost || line.len() > LONGEST_LINE {
            self.is_lost = true;
            return vec![(line, Part::Plain)];
        }
        let Ok(changes) = self.state.parse_line(&format!("{line}\n"), &self.loaded.set) else {
            self.is_lost = true;
            return vec![(line, Part::Plain)];
        };
        let mut parts: Vec<(&str, Part)> = Vec::new();
        let mut from = 0;
        for (at, change) in changes {
            let at = at.min(line.len());
            if at > from {
                let part = self.loaded.palette.part(self.stack.as_slice());
                parts.push((&line[from..at], part));
                from = at;
            }
            if self.stack.apply(&change).is_err() {
                self.is_lost = true;
                break;
            }
        }
        if from < line.len() {
            let part = self.loaded.palette.part(self.stack.as_slice());
            parts.push((&line[from..], part));
        }
        parts
    }
}
