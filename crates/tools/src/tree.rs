//! Renders the entries of a folder as a tree of bounded size. Pure: no I/O.

use std::collections::HashMap;

use sandbox::request::{ByteString, FileKind, ListEntry};

use crate::display::{count, name, size};

/// Entries shown of one folder before other folders of its level get theirs.
const FOLDER_SHARE_ENTRIES: usize = 50;

/// The tree as lines, with at most `most` entries, starting with the top levels. Entries must be in
/// walk order: a folder, then its content.
pub(crate) fn render_tree(entries: &[ListEntry], most: usize) -> String {
    let is_shown = choose_shown(entries, most);
    let mut text = String::new();
    // The open folders, each with the number of entries left out so far.
    let mut open: Vec<(&[u8], u64)> = vec![(b"", 0)];
    for (entry, is_shown) in entries.iter().zip(is_shown) {
        let parent = parent(entry);
        while open
            .last()
            .is_some_and(|(folder, _)| !is_below(parent, folder))
        {
            close_folder(&mut text, &mut open);
        }
        if !is_shown {
            if let Some((_, left_out)) = open.last_mut() {
                *left_out += 1;
            }
            continue;
        }
        text.push_str(&"  ".repeat(open.len() - 1));
        text.push_str(&entry_line(entry));
        text.push('\n');
        if entry.kind == FileKind::Folder {
            open.push((&entry.path.0, 0));
        }
    }
    while !open.is_empty() {
        close_folder(&mut text, &mut open);
    }
    text
}

/// Closes the innermost folder and reports the entries left out of it.
fn close_folder(text: &mut String, open: &mut Vec<(&[u8], u64)>) {
    if let Some((_, left_out @ 1..)) = open.pop() {
        text.push_str(&"  ".repeat(open.len()));
        text.push_str(&format!("… {} more\n", count(left_out, "entry", "entries")));
    }
}

/// Which entries are shown: level by level, and of each folder only its share until every folder of
/// the level had its own. The content of a hidden folder is hidden too.
fn choose_shown(entries: &[ListEntry], most: usize) -> Vec<bool> {
    let mut levels: Vec<Vec<usize>> = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let level = entry.path.0.iter().filter(|byte| **byte == b'/').count();
        if levels.len() <= level {
            levels.resize_with(level + 1, Vec::new);
        }
        levels[level].push(at);
    }
    let mut is_shown = vec![false; entries.len()];
    let mut shown_folders: HashMap<&[u8], usize> = HashMap::from([(b"".as_slice(), 0)]);
    let mut left = most;
    for level in levels {
        let mut waiting = Vec::new();
        let mut folders = Vec::new();
        for at in level {
            let Some(share) = shown_folders.get_mut(parent(&entries[at])) else {
                continue;
            };
            if *share >= FOLDER_SHARE_ENTRIES {
                waiting.push(at);
            } else if left > 0 {
                *share += 1;
                left -= 1;
                folders.push(at);
            }
        }
        waiting.truncate(left);
        left -= waiting.len();
        folders.extend(waiting);
        for at in folders {
            is_shown[at] = true;
            shown_folders.insert(&entries[at].path.0, 0);
        }
    }
    is_shown
}

fn parent(entry: &ListEntry) -> &[u8] {
    let path = &entry.path.0;
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(end) => &path[..end],
        None => b"",
    }
}

fn is_below(path: &[u8], folder: &[u8]) -> bool {
    match path.strip_prefix(folder) {
        Some(rest) => folder.is_empty() || rest.is_empty() || rest[0] == b'/',
        None => false,
    }
}

fn entry_line(entry: &ListEntry) -> String {
    let own = ByteString(match entry.path.0.iter().rposition(|byte| *byte == b'/') {
        Some(end) => entry.path.0[end + 1..].to_vec(),
        None => entry.path.0.clone(),
    });
    let own = name(&own);
    match (&entry.kind, &entry.target) {
        (FileKind::Folder, _) => format!("{own}/"),
        (FileKind::Symlink, Some(target)) => format!("{own} -> {}", name(target)),
        (FileKind::File, _) => format!("{own}  {}", size(entry.size)),
        _ => format!("{own}  (special)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(names: &[String]) -> Vec<ListEntry> {
        let entry = |name: &String| ListEntry {
            path: ByteString::from(name.trim_end_matches('/')),
            kind: if name.ends_with('/') {
                FileKind::Folder
            } else {
                FileKind::File
            },
            size: 1,
            target: None,
        };
        names.iter().map(entry).collect()
    }

    fn check(names: &[&str], most: usize, expect: &str) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let drawn = render_tree(&entries(&names), most).replace("  1 byte", "");
        assert_eq!(drawn, expect, "{names:?} {most}");
    }

    #[test]
    fn a_tree_shows_the_top_first_and_counts_the_rest() {
        check(&[], 9, "");
        let names = ["a/", "a/b/", "a/b/c", "a/d", "ab", "e/", "e/f"];
        check(&names, 9, "a/\n  b/\n    c\n  d\nab\ne/\n  f\n");
        check(
            &names,
            6,
            "a/\n  b/\n    … 1 entry more\n  d\nab\ne/\n  f\n",
        );
        check(
            &names,
            3,
            "a/\n  … 3 entries more\nab\ne/\n  … 1 entry more\n",
        );
        check(&names, 1, "a/\n  … 3 entries more\n… 3 entries more\n");
        check(&names, 0, "… 7 entries more\n");
    }

    #[test]
    fn a_full_folder_leaves_room_for_the_others() {
        let mut names = vec!["big/".to_owned()];
        names.extend((0..1000).map(|number| format!("big/{number:04}")));
        names.push("small/".to_owned());
        names.extend((0..10).map(|number| format!("small/{number}")));
        let drawn = render_tree(&entries(&names), 100);
        assert_eq!(drawn.lines().count(), 101, "{drawn}");
        assert!(drawn.contains("  … 912 entries more\nsmall/\n"), "{drawn}");
        assert!(drawn.ends_with("  9  1 byte\n"), "{drawn}");
    }
}
