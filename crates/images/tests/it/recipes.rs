//! Recipes: what is valid, and the messages for invalid ones.

use std::fs;
use std::path::Path;

use images::{Recipe, SHIPPED_RECIPES};
use insta::assert_snapshot;

use crate::fixtures::error_chain;

fn error_messages(recipes: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
    let mut all = String::new();
    for text in recipes {
        let error = Recipe::parse("my.toml", text, Some(folder.path())).unwrap_err();
        all.push_str(&format!(
            "{}\n{}\n\n",
            text.replace('\n', " | "),
            error_chain(&error)
        ));
    }
    all
}

#[test]
fn wrong_recipes() {
    let said = error_messages(&[
        "packages = []",
        "from = \"debian:bookworm\"\npackage = [\"git\"]",
        "from = \"debian:bookworm\"\n\n[files.\"/x\"]\ncontents = \"\"",
        "from = \"debian:bookworm\"\npackages = \"git\"",
        "from = \"debian:bookworm\"\npackages = [",
        "from = \"nothing\"",
        "from = \"ubuntu:noble\"",
        "from = \"debian:--help\"",
        "from = \"debian:bookworm\"\npackages = [\"--option=x\"]",
        "from = \"debian:bookworm\"\npackages = [\"a,b\"]",
        "from = \"debian:bookworm\"\nmirror = \"file:///etc\"",
        "from = \"debian:bookworm\"\nmirror = \"http://x/ trusted=yes\"",
        "from = \"debian:bookworm\"\nrun = [\" \"]",
        "from = \"debian:bookworm\"\nfiles.\"x\" = { content = \"\" }",
        "from = \"debian:bookworm\"\nfiles.\"/a/../b\" = { content = \"\" }",
        "from = \"debian:bookworm\"\nfiles.\"/\" = { content = \"\" }",
        "from = \"debian:bookworm\"\nfiles.\"/x\" = { }",
        "from = \"debian:bookworm\"\nfiles.\"/x\" = { content = \"\", source = \"y\" }",
        "from = \"debian:bookworm\"\nfiles.\"/x\" = { content = \"\", mode = \"4755\" }",
        "from = \"debian:bookworm\"\nfiles.\"/x\" = { source = \"missing\" }",
        "from = \"debian:bookworm\"\nfiles.\"/x\" = { source = \"folder\" }",
        "from = \"debian:bookworm\"\nfiles.\"/x\" = { source = \"../../etc/passwd\" }",
        "from = \"debian:bookworm\"\nfiles.\"/x\" = { source = \"/etc/passwd\" }",
    ]);
    assert_snapshot!(said, @r#"
        packages = []
        the recipe `my.toml` is wrong: line 1: missing field `from`

        from = "debian:bookworm" | package = ["git"]
        the recipe `my.toml` is wrong: line 2: unknown field `package`, expected one of `from`, `mirror`, `packages`, `run`, `files`

        from = "debian:bookworm" |  | [files."/x"] | contents = ""
        the recipe `my.toml` is wrong: line 4: unknown field `contents`, expected one of `content`, `source`, `mode`

        from = "debian:bookworm" | packages = "git"
        the recipe `my.toml` is wrong: line 2: invalid type: string "git", expected a sequence

        from = "debian:bookworm" | packages = [
        the recipe `my.toml` is wrong: line 2: unclosed array, expected `]`

        from = "nothing"
        the recipe `my.toml` is wrong: `from` is `nothing`, not `debian:SUITE` or one of base, desktop

        from = "ubuntu:noble"
        the recipe `my.toml` is wrong: `from` is `ubuntu:noble`, not `debian:SUITE` or one of base, desktop

        from = "debian:--help"
        the recipe `my.toml` is wrong: `--help` is not a suite such as `bookworm`

        from = "debian:bookworm" | packages = ["--option=x"]
        the recipe `my.toml` is wrong: `--option=x` is not a package name

        from = "debian:bookworm" | packages = ["a,b"]
        the recipe `my.toml` is wrong: `a,b` is not a package name

        from = "debian:bookworm" | mirror = "file:///etc"
        the recipe `my.toml` is wrong: the mirror `file:///etc` is not an http or https URL

        from = "debian:bookworm" | mirror = "http://x/ trusted=yes"
        the recipe `my.toml` is wrong: the mirror `http://x/ trusted=yes` is not an http or https URL

        from = "debian:bookworm" | run = [" "]
        the recipe `my.toml` is wrong: a command in `run` is empty

        from = "debian:bookworm" | files."x" = { content = "" }
        the recipe `my.toml` is wrong: `x` is not an absolute file path such as `/etc/motd`

        from = "debian:bookworm" | files."/a/../b" = { content = "" }
        the recipe `my.toml` is wrong: `/a/../b` is not an absolute file path such as `/etc/motd`

        from = "debian:bookworm" | files."/" = { content = "" }
        the recipe `my.toml` is wrong: `/` is not an absolute file path such as `/etc/motd`

        from = "debian:bookworm" | files."/x" = { }
        the recipe `my.toml` is wrong: `/x` needs either `content` or `source`

        from = "debian:bookworm" | files."/x" = { content = "", source = "y" }
        the recipe `my.toml` is wrong: `/x` needs either `content` or `source`

        from = "debian:bookworm" | files."/x" = { content = "", mode = "4755" }
        the recipe `my.toml` is wrong: the mode `4755` of `/x` is not one from `0000` to `0777`

        from = "debian:bookworm" | files."/x" = { source = "missing" }
        the recipe `my.toml` is wrong: cannot read its file `missing`: No such file or directory (os error 2)

        from = "debian:bookworm" | files."/x" = { source = "folder" }
        the recipe `my.toml` is wrong: cannot read its file `folder`: it is not a file

        from = "debian:bookworm" | files."/x" = { source = "../../etc/passwd" }
        the recipe `my.toml` is wrong: `../../etc/passwd` is not beside the recipe

        from = "debian:bookworm" | files."/x" = { source = "/etc/passwd" }
        the recipe `my.toml` is wrong: `/etc/passwd` is not beside the recipe
    "#);
}

#[test]
fn what_decides_the_content_decides_the_digest() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("script"), "one").unwrap();
    let digest = |text: &str| {
        let text = format!("from = \"debian:bookworm\"\n{text}");
        Recipe::parse("r", &text, Some(folder.path()))
            .unwrap()
            .digest()
    };
    let plain = digest("packages = [\"git\", \"curl\"]");
    // Order, duplicates and comments do not matter.
    assert_eq!(
        plain,
        digest("# words\npackages = [\"curl\", \"git\", \"curl\"]")
    );
    let others = [
        digest("packages = [\"git\"]"),
        digest("packages = [\"git\", \"curl\"]\nrun = [\"a\", \"b\"]"),
        digest("packages = [\"git\", \"curl\"]\nrun = [\"b\", \"a\"]"),
        digest("packages = [\"git\", \"curl\"]\nmirror = \"http://mirror/debian\""),
        digest("packages = [\"git\", \"curl\"]\nfiles.\"/x\" = { content = \"\" }"),
        digest(
            "packages = [\"git\", \"curl\"]\nfiles.\"/x\" = { content = \"\", mode = \"0755\" }",
        ),
    ];
    for (number, other) in others.iter().enumerate() {
        assert_ne!(*other, plain, "{number}");
        assert!(!others[..number].contains(other), "{number}");
    }
    let with_file = || digest("files.\"/x\" = { source = \"script\" }");
    let before = with_file();
    assert_eq!(before, with_file());
    fs::write(folder.path().join("script"), "two").unwrap();
    assert_ne!(before, with_file());
}

#[test]
fn the_recipes_that_come_along_are_right_and_build_on_one_another() {
    for (name, _) in SHIPPED_RECIPES {
        let recipe = Recipe::shipped(name).unwrap().unwrap();
        assert_eq!(recipe.from(), "debian:bookworm", "{name}");
    }
    let digest = |name: &str| Recipe::shipped(name).unwrap().unwrap().digest();
    assert_ne!(digest("base"), digest("desktop"));
    assert!(Recipe::shipped("nothing").is_none());
    let mine = Recipe::parse("mine", "from = \"base\"", None).unwrap();
    assert_eq!(mine.digest(), digest("base"), "it adds nothing");
}

#[test]
fn a_recipe_that_is_no_file_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for path in [fifo.as_path(), Path::new("/dev/zero"), folder.path()] {
        let error = Recipe::read(path).unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(cause, "it is not a file", "{}", path.display());
    }
}
