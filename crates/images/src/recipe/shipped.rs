//! The recipes that are part of the program, from `recipes` in the repository.

/// Names and texts.
pub const SHIPPED_RECIPES: &[(&str, &str)] = &[
    ("base", include_str!("../../../../recipes/base.toml")),
    ("desktop", include_str!("../../../../recipes/desktop.toml")),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use crate::recipe::Recipe;

    /// The `Containerfile`, for builds with Podman or Docker, makes the same image as the recipe.
    #[test]
    fn the_containerfile_makes_the_same_base() {
        let recipe = Recipe::shipped("base").unwrap().unwrap();
        let text = include_str!("../../../../Containerfile");
        let (_, base) = text.split_once(" AS base\n").unwrap();
        let (base, _) = base.split_once("\nFROM ").unwrap();
        let (_, install) = base.split_once("--no-install-recommends").unwrap();
        let (install, rest) = install.split_once("&&").unwrap();
        let packages: BTreeSet<&str> = install
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'))
            .flat_map(str::split_whitespace)
            .filter(|word| *word != "\\")
            .collect();
        let expected: BTreeSet<&str> = recipe.packages.iter().map(String::as_str).collect();
        assert_eq!(packages, expected);
        let commands: Vec<&str> = rest
            .lines()
            .filter_map(|line| line.strip_prefix("RUN "))
            .collect();
        let (files, commands): (Vec<&str>, Vec<&str>) = commands
            .into_iter()
            .partition(|command| command.starts_with("printf "));
        assert_eq!(commands, recipe.run);
        assert_eq!(files.len(), recipe.files.len());
        for (command, (path, file)) in files.iter().zip(&recipe.files) {
            let content = std::str::from_utf8(&file.content).unwrap();
            let printed = content.trim_start().replace('\n', "\\n");
            assert_eq!(*command, format!("printf '{printed}' > {path}"));
        }
    }
}
