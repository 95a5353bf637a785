//! Searches file contents with the engine of ripgrep. Respects `.gitignore` and bounds memory and results.

use std::io;
use std::path::Path;
use std::rc::Rc;

use grep_regex::RegexMatcherBuilder;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use link::Stream;
use link::request::{ByteString, GuestResult, SearchMatch, SearchRequest, Truncated};

use crate::listing::{BatchSender, bad_pattern, batches, globs};
use crate::refusal::PathContext;
use crate::session::Guest;
use crate::walk::{SkipPolicy, Walk, open_regular};

/// Maximum buffer for the content of one file.
const MAX_BUFFER_BYTES: usize = 8 * 1024 * 1024;

/// Longer lines are truncated, such as those of minified files.
const MAX_LINE_BYTES: usize = 4096;

pub(crate) async fn search(guest: &Rc<Guest>, request: SearchRequest, stream: Stream) {
    let root = guest.resolve(Some(&request.path));
    batches(guest, stream, move |out| run(&root, &request, out)).await;
}

fn run(
    root: &Path,
    request: &SearchRequest,
    out: &mut BatchSender<SearchMatch>,
) -> GuestResult<Truncated> {
    std::fs::symlink_metadata(root).on("search", root)?;
    let matcher = RegexMatcherBuilder::new()
        .case_insensitive(request.case_insensitive)
        .line_terminator(Some(b'\n'))
        .build(&request.pattern)
        .map_err(|error| bad_pattern("the pattern", error))?;
    let globs = globs(root, &request.globs)?;
    let mut searcher = SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .line_number(true)
        .heap_limit(Some(MAX_BUFFER_BYTES))
        .before_context(request.context as usize)
        .after_context(request.context as usize)
        .build();
    let mut left = request.limit;
    let is_file = root.is_file();
    let alone = is_file.then(|| root.to_owned());
    let passing = SkipPolicy::of(request.ignore, request.hidden);
    let below = Walk::new(root, u32::MAX, passing)
        .filter(|found| found.kind.is_file())
        .map(|found| found.path)
        .filter(|path| !globs.matched(path, false).is_ignore());
    for path in alone.into_iter().chain(below) {
        // Skip files that have vanished, are not regular files any more, or are not readable.
        let Ok(file) = open_regular(&path) else {
            continue;
        };
        let shown = path.strip_prefix(root).ok();
        let shown = shown.filter(|shown| !shown.as_os_str().is_empty());
        let mut sink = MatchCollector {
            path: ByteString::from(shown.unwrap_or(&path)),
            out,
            left: &mut left,
            truncated: false,
            stopped: false,
        };
        // A file whose lines do not fit into the buffer ends with an error; it is skipped too.
        let _ = searcher.search_file(&matcher, &file, &mut sink);
        if sink.stopped || sink.truncated {
            return Ok(Truncated(sink.truncated));
        }
    }
    Ok(Truncated(false))
}

struct MatchCollector<'a> {
    path: ByteString,
    out: &'a mut BatchSender<SearchMatch>,
    left: &'a mut u64,
    truncated: bool,
    stopped: bool,
}

impl MatchCollector<'_> {
    fn push(&mut self, line: Option<u64>, bytes: &[u8], is_context: bool) -> bool {
        let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let found = SearchMatch {
            path: self.path.clone(),
            line: line.unwrap_or(0),
            text: ByteString(text[..text.len().min(MAX_LINE_BYTES)].to_vec()),
            is_context,
        };
        self.stopped = self.out.push(found).is_break();
        !self.stopped
    }
}

impl Sink for MatchCollector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if *self.left == 0 {
            self.truncated = true;
            return Ok(false);
        }
        *self.left -= 1;
        Ok(self.push(found.line_number(), found.bytes(), false))
    }

    fn context(&mut self, _: &Searcher, near: &SinkContext<'_>) -> io::Result<bool> {
        Ok(self.push(near.line_number(), near.bytes(), true))
    }
}
