//! Manages the languages for syntax colours, and colours long code in the background.
//!
//! Loading the definitions and colouring the first lines of a language costs tens of milliseconds,
//! and each line a part of one. So everything long happens on a background thread, started by
//! [`SyntaxColours::start`]. Until it is done, code is plain; then [`SyntaxColours::generation`] grows and the
//! UI is woken. Entry type: [`SyntaxColours`].

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use super::coloured_code::{CodeKey, ColouredCode, ColouredCodeCache};
use super::highlighter::{Highlighter, LanguageSet};
use crate::theme::Theme;

/// Maximum number of language names that are tracked. Code in further languages stays plain.
const MAX_LANGUAGES: usize = 256;
/// Lines of code used to warm up a language.
const SAMPLE_LINES: usize = 64;

/// The state of all languages. One instance for the whole program, and none in most tests.
pub(crate) struct SyntaxColours {
    loaded: OnceLock<LanguageSet>,
    languages: Mutex<HashMap<String, LanguageState>>,
    painted: Mutex<ColouredCodeCache>,
    generation: AtomicU64,
    tasks: Mutex<Option<Sender<ColourTask>>>,
}

#[derive(Debug, Clone, Copy)]
enum LanguageState {
    Asked,
    Unknown,
    Ready,
}

/// A task for the background thread.
#[derive(Debug)]
enum ColourTask {
    /// Load a language and warm it up.
    Language { name: String, sample: String },
    /// Colour a whole text.
    Code {
        key: CodeKey,
        name: String,
        text: String,
    },
}

impl fmt::Debug for SyntaxColours {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Colours")
            .field("generation", &self.generation())
            .finish_non_exhaustive()
    }
}

impl PartialEq for SyntaxColours {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl SyntaxColours {
    /// Starts the thread, which sleeps until there is code to colour. `wake` is called whenever
    /// there is something new to draw. Only the first call has an effect.
    pub(crate) fn start(wake: impl Fn() + Send + 'static) -> &'static Self {
        static COLOURS: OnceLock<SyntaxColours> = OnceLock::new();
        static STARTED: OnceLock<()> = OnceLock::new();
        let colours = COLOURS.get_or_init(Self::new);
        STARTED.get_or_init(|| {
            let (sender, receiver) = channel();
            let work = move || colours.work(&receiver, &wake);
            // Without a thread, code stays plain. The thread owns no resources and ends with the
            // program.
            if thread::Builder::new()
                .name("colours".into())
                .spawn(work)
                .is_ok()
            {
                *lock(&colours.tasks) = Some(sender);
            }
        });
        colours
    }

    fn new() -> Self {
        Self {
            loaded: OnceLock::new(),
            languages: Mutex::default(),
            painted: Mutex::default(),
            generation: AtomicU64::new(0),
            tasks: Mutex::new(None),
        }
    }

    /// Grows whenever colours for more code are available.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// A highlighter for the start of some code. `None` if the code stays plain, or is plain for
    /// now: then the language is requested, and the second value is true.
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
            Some(LanguageState::Ready) => (self.begin(&name), false),
            Some(LanguageState::Unknown) => (None, false),
            Some(LanguageState::Asked) => (None, true),
            None if languages.len() >= MAX_LANGUAGES => (None, false),
            None => {
                let sample = code.split_inclusive('\n').take(SAMPLE_LINES).collect();
                let is_asked = self.send_task(ColourTask::Language {
                    name: name.clone(),
                    sample,
                });
                let state = if is_asked {
                    LanguageState::Asked
                } else {
                    LanguageState::Unknown
                };
                languages.insert(name, state);
                (None, is_asked)
            }
        }
    }

    /// The coloured code, whose language must be ready. `None` for now: then it is requested.
    pub(super) fn painted(
        &'static self,
        key: CodeKey,
        language: &str,
        text: &str,
    ) -> Option<Arc<ColouredCode>> {
        let name = language_name(language)?;
        let mut cache = lock(&self.painted);
        if let Some(painted) = cache.get_or_reserve(key)? {
            return Some(painted);
        }
        let is_asked = self.send_task(ColourTask::Code {
            key,
            name: name.clone(),
            text: text.to_owned(),
        });
        if is_asked {
            return None;
        }
        // There is no background thread.
        let painted = Arc::new(ColouredCode::new(self.begin(&name)?, text));
        cache.put(key, Arc::clone(&painted));
        Some(painted)
    }

    fn send_task(&self, task: ColourTask) -> bool {
        lock(&self.tasks)
            .as_ref()
            .is_some_and(|sender| sender.send(task).is_ok())
    }

    fn work(&'static self, tasks: &Receiver<ColourTask>, wake: &impl Fn()) {
        while let Ok(task) = tasks.recv() {
            match task {
                ColourTask::Language { name, sample } => self.prepare(&name, &sample),
                ColourTask::Code { key, name, text } => self.paint(key, &name, &text),
            }
            self.generation.fetch_add(1, Ordering::AcqRel);
            wake();
        }
    }

    fn prepare(&'static self, name: &str, sample: &str) {
        let languages = self.loaded.get_or_init(LanguageSet::load);
        let state = match languages.highlighter(name) {
            Some(highlighter) => {
                ColouredCode::new(highlighter, sample);
                LanguageState::Ready
            }
            None => LanguageState::Unknown,
        };
        lock(&self.languages).insert(name.to_owned(), state);
    }

    fn paint(&'static self, key: CodeKey, name: &str, text: &str) {
        if let Some(highlighter) = self.begin(name) {
            let painted = ColouredCode::new(highlighter, text);
            lock(&self.painted).put(key, Arc::new(painted));
        }
    }

    fn begin(&'static self, name: &str) -> Option<Highlighter> {
        self.loaded.get()?.highlighter(name)
    }

    /// An instance with these languages and no others.
    #[cfg(test)]
    pub(crate) fn ready(names: &[&str]) -> &'static Self {
        let colours: &'static Self = Box::leak(Box::new(Self::new()));
        for name in names {
            colours.prepare(name, "");
        }
        colours
    }
}

/// The generation of the colours of a theme: grows whenever more code can be coloured.
pub(crate) fn colours(theme: &Theme) -> u64 {
    theme.colours.map_or(0, SyntaxColours::generation)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name of a language from the info string of a fence, or from a path: `Rust`, `rust,ignore`
/// and `src/main.rs` (by its file name).
fn language_name(tag: &str) -> Option<String> {
    let tag = tag.trim().trim_start_matches(['{', '.']);
    let end = tag.find([' ', ',', '{', '}', '\t']).unwrap_or(tag.len());
    let tag = &tag[..end];
    let file = tag.rsplit(['/', ':']).next().unwrap_or(tag);
    let is_named = !file.is_empty() && file.len() <= 64;
    is_named.then(|| file.to_ascii_lowercase())
}
