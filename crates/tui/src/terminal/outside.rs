//! Lets a person write in an editor of their own. The text goes through a file that only they can
//! read, and that is gone afterwards.

use std::io::{self, Read, Write};
use std::process::{Command, ExitStatus};

use thiserror::Error;

/// More than this is not taken back.
const MOST: u64 = 16 << 20;

#[derive(Debug, Error)]
pub(super) enum OutsideError {
    #[error("cannot make a file to write in")]
    Make(#[source] io::Error),
    #[error("cannot start `{editor}`")]
    Start { editor: String, source: io::Error },
    #[error("`{editor}` ended with {status}; what was written is left as it was")]
    Failed { editor: String, status: ExitStatus },
    #[error("cannot read what was written")]
    Read(#[source] io::Error),
}

/// Blocks until the editor ends. The terminal must be its own by then.
pub(super) fn edit(editor: &str, text: &str) -> Result<String, OutsideError> {
    // Readable by nobody else.
    let mut file = tempfile::Builder::new()
        .prefix("hotcell-")
        .suffix(".md")
        .tempfile()
        .map_err(OutsideError::Make)?;
    file.write_all(text.as_bytes())
        .map_err(OutsideError::Make)?;
    // As the shell has it: the variable may hold arguments, and quotes.
    let status = Command::new("/bin/sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(file.path())
        .status()
        .map_err(|source| OutsideError::Start {
            editor: editor.to_owned(),
            source,
        })?;
    if !status.success() {
        return Err(OutsideError::Failed {
            editor: editor.to_owned(),
            status,
        });
    }
    // Many editors put a new file in the place of the old one.
    let written = std::fs::File::open(file.path()).map_err(OutsideError::Read)?;
    let mut bytes = Vec::new();
    let result = written.take(MOST).read_to_end(&mut bytes);
    result.map_err(OutsideError::Read)?;
    let text = String::from_utf8_lossy(&bytes);
    // Editors end the last line, people do not mean it.
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_editor_does_comes_back() {
        let check = |editor: &str, text: &str, expect: Result<&str, &str>| {
            let result = edit(editor, text).map_err(|error| error.to_string());
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
            Err("`exit 3; :` ended with exit status: 3; what was written is left as it was"),
        );
        check("rm", "", Err("cannot read what was written"));
    }

    #[test]
    fn the_file_is_private_and_goes_away() {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("seen");
        let editor = format!("f() {{ stat -c '%a %n' \"$1\" > {}; }}; f", copy.display());
        edit(&editor, "secret").unwrap();
        let seen = std::fs::read_to_string(&copy).unwrap();
        let (mode, name) = seen.trim().split_once(' ').unwrap();
        assert_eq!(mode, "600");
        assert!(
            name.ends_with(".md") && !std::path::Path::new(name).exists(),
            "{name}"
        );
    }
}
