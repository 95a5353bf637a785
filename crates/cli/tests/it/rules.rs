//! The user's rules, as `hotcell run` applies them.

use std::fs;

use serde_json::Value;

use crate::place::{assert_code, run, stderr};
use crate::scene::{Scene, bash, lines, say};

/// Writes a rules file in its default place.
fn write_rules(scene: &Scene, text: &str) {
    let folder = scene.place.home().join(".config/hotcell");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("rules.toml"), text).unwrap();
}

#[test]
fn a_run_keeps_to_them_and_says_what_they_open() {
    let replies = vec![
        bash("touch denied"),
        bash("mkdir asked"),
        bash("echo free"),
        say("Done."),
    ];
    let scene = Scene::new(replies);
    write_rules(
        &scene,
        "[[rule]]\ntool = \"bash\"\nargument = \"touch*\"\naction = \"deny\"\n\n\
         [[rule]]\ntool = \"bash\"\nargument = \"mkdir*\"\naction = \"ask\"\n\n\
         [[rule]]\nhost = \"pypi.org\"\naction = \"allow\"\n\n\
         [[rule]]\nhost = \"evil.example.org\"\naction = \"deny\"\n",
    );
    let events = lines(&scene.done(&["run", "Go.", "--json"]));
    let of_kind = |kind: &str| -> Vec<&Value> {
        events
            .iter()
            .filter(|event| event["type"] == kind)
            .collect()
    };
    assert_eq!(
        of_kind("sandbox_started")[0]["network"],
        serde_json::json!(["pypi.org"])
    );
    let ended = of_kind("tool_ended");
    let said: Vec<&str> = ended
        .iter()
        .map(|event| event["content"][0]["text"].as_str().unwrap())
        .collect();
    assert!(
        said[0].starts_with("Denied by rule `bash touch*`."),
        "{said:?}"
    );
    assert!(said[1].contains("nobody can be asked here"), "{said:?}");
    assert!(said[2].contains("free"), "{said:?}");
    assert!(!scene.file("denied").exists());
    assert!(!scene.file("asked").exists());
    assert!(of_kind("asked").is_empty());
}

#[test]
fn a_file_that_is_wrong_stops_it() {
    let scene = Scene::new(vec![say("Done.")]);
    write_rules(&scene, "[[rule]]\nhost = \"pypi.org\"\naction = \"alow\"\n");
    let output = run(&mut scene.hotcell(["run", "Go."]));
    assert_code(&output, 2);
    let said = stderr(&output);
    let said = said.replace(scene.place.home().to_str().unwrap(), "HOME");
    assert_eq!(
        said,
        "hotcell: cannot read the rules `HOME/.config/hotcell/rules.toml`: line 3: unknown variant \
         `alow`, expected one of `allow`, `ask`, `deny`\n\
         hint: a rule is `[[rule]]` with `host`, or `tool` and perhaps `argument`, and `action`: \
         allow, ask or deny\n"
    );
    assert!(scene.server.requests().is_empty());
}

#[test]
fn a_file_inside_the_workspace_stops_it() {
    let scene = Scene::new(vec![say("Done.")]);
    write_rules(&scene, "");
    let home = scene.place.home();
    let config = home.join(".config");
    let output = run(scene.hotcell(["run", "Go.", "--workspace"]).arg(&config));
    assert_code(&output, 2);
    assert!(
        stderr(&output).contains("lie inside the workspace"),
        "{}",
        stderr(&output)
    );
    assert!(scene.server.requests().is_empty());
}
