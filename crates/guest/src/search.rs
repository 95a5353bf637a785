//! Searches file contents: the engine of ripgrep, aware of `.gitignore`, bounded.

use std::io;
use std::path::Path;
use std::rc::Rc;

use grep_regex::RegexMatcherBuilder;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use ignore::overrides::OverrideBuilder;
use link::Stream;
use link::request::{Answer, Match, Raw, Search, Truncated};

use crate::listing::{Out, bad_pattern, batches, walker};
use crate::refusal::OnPath;
use crate::session::Guest;

/// Longer lines are cut: minified files are one line.
const LONGEST_LINE: usize = 4096;

pub(crate) async fn search(guest: &Rc<Guest>, request: Search, stream: Stream) {
    let root = guest.resolve(Some(&request.path));
    batches(guest, stream, move |out| run(&root, &request, out)).await;
}

fn run(root: &Path, request: &Search, out: &mut Out<Match>) -> Answer<Truncated> {
    std::fs::symlink_metadata(root).on("search", root)?;
    let matcher = RegexMatcherBuilder::new()
        .case_insensitive(request.case_insensitive)
        .line_terminator(Some(b'\n'))
        .build(&request.pattern)
        .map_err(|error| bad_pattern("the pattern", error))?;
    let mut globs = OverrideBuilder::new(root);
    for glob in &request.globs {
        globs
            .add(glob)
            .map_err(|error| bad_pattern("the glob", error))?;
    }
    let globs = globs
        .build()
        .map_err(|error| bad_pattern("the globs", error))?;
    let mut searcher = SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .line_number(true)
        .before_context(request.context as usize)
        .after_context(request.context as usize)
        .build();
    let mut left = request.limit;
    let mut walker = walker(root, request.ignore);
    walker.overrides(globs);
    for entry in walker.build().flatten() {
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        let mut sink = Collector {
            path: Raw::from(
                entry
                    .path()
                    .strip_prefix(root)
                    .ok()
                    .filter(|p| !p.as_os_str().is_empty())
                    .unwrap_or(entry.path()),
            ),
            out,
            left: &mut left,
            truncated: false,
            stopped: false,
        };
        // A file that vanished or may not be read has nothing to say.
        let _ = searcher.search_path(&matcher, entry.path(), &mut sink);
        if sink.stopped || sink.truncated {
            return Ok(Truncated(sink.truncated));
        }
    }
    Ok(Truncated(false))
}

struct Collector<'a> {
    path: Raw,
    out: &'a mut Out<Match>,
    left: &'a mut u64,
    truncated: bool,
    stopped: bool,
}

impl Collector<'_> {
    fn push(&mut self, line: Option<u64>, bytes: &[u8], is_context: bool) -> bool {
        let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let found = Match {
            path: self.path.clone(),
            line: line.unwrap_or(0),
            text: Raw(text[..text.len().min(LONGEST_LINE)].to_vec()),
            is_context,
        };
        self.stopped = self.out.push(found).is_break();
        !self.stopped
    }
}

impl Sink for Collector<'_> {
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
