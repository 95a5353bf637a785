//! Files that are not in a zip, with reasons: the first ones by name, the others as a count.

use std::fmt::Write;

use protocol::job::LeftOut;

use crate::tree::escape_for_zip;

/// Maximum length of the list, including the line that counts the others.
const MAX_LISTED: usize = 100;

const MAX_COMMENT_BYTES: usize = 32 << 10;

#[derive(Debug, Default)]
pub(super) struct LeftOutList {
    named: Vec<LeftOut>,
    others: u64,
}

impl LeftOutList {
    pub(super) fn add(&mut self, path: &[u8], reason: impl Into<String>) {
        if self.named.len() < MAX_LISTED - 1 {
            self.named.push(LeftOut {
                path: escape_for_zip(path).0,
                reason: reason.into(),
            });
        } else {
            self.others += 1;
        }
    }

    /// Completes the list. The limit is given if the walk stopped at that many files.
    pub(super) fn finish(mut self, most: Option<u64>) -> Vec<LeftOut> {
        let others = (self.others > 0).then(|| format!("and {} more", self.others));
        let rest = most.map(|most| format!("the workspace has more than {most} files"));
        let reason: Vec<String> = others.into_iter().chain(rest).collect();
        if !reason.is_empty() {
            self.named.push(LeftOut {
                path: "…".to_owned(),
                reason: reason.join("; "),
            });
        }
        self.named
    }
}

/// The list as a zip comment; empty if nothing was left out.
pub(super) fn comment(left_out: &[LeftOut]) -> String {
    let mut text = String::new();
    for LeftOut { path, reason } in left_out {
        let title = if text.is_empty() {
            "Not as in the workspace:\n"
        } else {
            ""
        };
        let line = format!("{title}{path}: {reason}\n");
        if text.len() + line.len() > MAX_COMMENT_BYTES {
            break;
        }
        text.write_str(&line).expect("text takes everything");
    }
    text
}
