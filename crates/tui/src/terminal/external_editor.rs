//! Opens the message in the user's external editor. The text goes through a private temporary file,
//! which is removed afterwards.

use std::io::{self, Read, Write};
use std::process::{Command, ExitStatus};

use thiserror::Error;

/// Longer text is cut.
const MAX_TEXT_BYTES: u64 = 16 << 20;

#[derive(Debug, Error)]
pub(super) enum EditorError {
    #[error("cannot create a temporary file")]
    Make(#[source] io::Error),
    #[error("cannot start `{editor}`")]
    Start { editor: String, source: io::Error },
    #[error("`{editor}` ended with {status}; the message is unchanged")]
    Failed { editor: String, status: ExitStatus },
    #[error("cannot read the edited message")]
    Read(#[source] io::Error),
}

/// Blocks until the editor ends. The caller must have restored the terminal.
pub(super) fn edit_text(editor: &str, text: &str) -> Result<String, EditorError> {
    // Created with mode 600.
    let mut file = tempfile::Builder::new()
        .prefix("hotcell-")
        .suffix(".md")
        .tempfile()
        .map_err(EditorError::Make)?;
    file.write_all(text.as_bytes()).map_err(EditorError::Make)?;
    // Through a shell: the variable may contain arguments and quotes.
    let status = Command::new("/bin/sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(file.path())
        .status()
        .map_err(|source| EditorError::Start {
            editor: editor.to_owned(),
            source,
        })?;
    if !status.success() {
        return Err(EditorError::Failed {
            editor: editor.to_owned(),
            status,
        });
    }
    // Many editors replace the file, so open it again by its path.
    let written = std::fs::File::open(file.path()).map_err(EditorError::Read)?;
    let mut bytes = Vec::new();
    let result = written.take(MAX_TEXT_BYTES).read_to_end(&mut bytes);
    result.map_err(EditorError::Read)?;
    let text = String::from_utf8_lossy(&bytes);
    // Editors end the last line with a newline that is not part of the message.
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edited_text_is_returned() {
        let check = |editor: &str, text: &str, expect: Result<&str, &str>| {
            let result = edit_text(editor, text).map_err(|error| error.to_string());
            let expect = expect.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(result, expect, "{editor}");
        };
        check("sed -i s/one/two/", "one\nline", Ok("two\nline"));
        check("true", "as it was\n\n", Ok("as it was\n"));
        check(
            "f() { printf 'new\\n' > \"$1.x\"; mv \"$1.x\" \"$1\"; }; f",
            "",
            Ok("new"),
        );
        check(
            "exit 3; :",
            "",
            Err("`exit 3; :` ended with exit status: 3; the message is unchanged"),
        );
        check("rm", "", Err("cannot read the edited message"));
    }

    #[test]
    fn the_file_is_private_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("seen");
        let editor = format!("f() {{ stat -c '%a %n' \"$1\" > {}; }}; f", copy.display());
        edit_text(&editor, "secret").unwrap();
        let seen = std::fs::read_to_string(&copy).unwrap();
        let (mode, name) = seen.trim().split_once(' ').unwrap();
        assert_eq!(mode, "600");
        assert!(
            name.ends_with(".md") && !std::path::Path::new(name).exists(),
            "{name}"
        );
    }
}
