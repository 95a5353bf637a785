//! What a sandbox can leave for the next start: a planted `.env`, links in place of the workspace, files
//! that never end. None of it affects the next start.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::place::{Place, assert_code, run, stderr, stdout};
use crate::scene::{KEY, Scene, say};
use crate::terminal_user::TerminalUser;

const ENV_FILE_HINT: &str = "hint: such a file may set keys and the model only: use a flag, the environment or \
                    the settings file\n";

/// Runs a script in a sandbox whose workspace is the current folder.
#[track_caller]
fn plant(place: &Place, script: &str) {
    assert_code(&place.exec(&["--workspace", "."], script), 0);
}

#[test]
fn a_planted_env_file_sets_no_folder_address_or_policy() {
    let scene = Scene::new([say("1")]);
    let place = &scene.place;
    let secret = place.home().join("secret");
    fs::create_dir(&secret).unwrap();
    plant(
        place,
        &format!(
            "printf '%s\\n' SAFEDIR={} USE_SANDBOX=false OPENAI_BASE_URL=http://127.0.0.1:1 \
             ANTHROPIC_BASE_URL=http://127.0.0.1:1 HTTPS_PROXY=http://127.0.0.1:1 \
             MODEL=scripted/planted.toml HOTCELL_SERVER=http://127.0.0.1:1 HOTCELL_DATA=here \
             DOCKER_HOST=unix:///here > .env",
            secret.display()
        ),
    );
    let warning = format!(
        "hotcell: `.env` cannot set SAFEDIR, USE_SANDBOX, OPENAI_BASE_URL, ANTHROPIC_BASE_URL, \
         HTTPS_PROXY, MODEL, HOTCELL_SERVER, HOTCELL_DATA, DOCKER_HOST: ignored\n{ENV_FILE_HINT}"
    );
    let output = place.exec(&[], "touch made; id -u");
    assert_eq!(
        (stdout(&output).as_str(), stderr(&output)),
        ("1000\n", warning.clone())
    );
    assert!(place.here("workspace/made").exists());
    assert_eq!(fs::read_dir(&secret).unwrap().count(), 0);
    // The agent uses no other address either, even if the user has allowed or named the file.
    let allowed = run(&mut place.hotcell(["env", "allow"]));
    assert_code(&allowed, 2);
    let output = scene.run(&["run", "--env-file", ".env", "Answer"]);
    assert_code(&output, 0);
    assert!(stderr(&output).starts_with(&warning), "{output:?}");
    assert_eq!(scene.server.request_count(), 1);
    assert_eq!(fs::read_dir(&secret).unwrap().count(), 0);
}

#[test]
fn keys_count_from_a_content_that_was_allowed() {
    let scene = Scene::new(["1", "2", "3"].map(say));
    let place = &scene.place;
    let url = scene.server.base_url();
    let answer = |flags: &[&str]| {
        let mut command = place.hotcell(["run", "Answer"]);
        run(command.args(flags).env("ANTHROPIC_BASE_URL", &url))
    };
    let key = || {
        let request = scene.server.requests().pop().unwrap();
        request.header("x-api-key").map(str::to_owned)
    };
    let not_used = |why: &str| {
        let output = answer(&[]);
        assert_code(&output, 2);
        let expect = format!(
            "hotcell: `.env` is not used, although it sets ANTHROPIC_API_KEY: {why}\n\
             hint: `hotcell env allow`, or `--env-file .env`\n\
             hotcell: ANTHROPIC_API_KEY is not set\n"
        );
        assert!(stderr(&output).starts_with(&expect), "{output:?}");
        assert!(!stderr(&output).contains("key-"), "{output:?}");
    };
    let file = place.here(".env");
    fs::write(&file, "ANTHROPIC_API_KEY=key-first\n").unwrap();
    not_used("you have not allowed it");
    // Naming the file allows it for this run only.
    assert_code(&answer(&["--env-file", ".env"]), 0);
    assert_eq!(key().as_deref(), Some("key-first"));
    not_used("you have not allowed it");

    let allowed = run(&mut place.hotcell(["env", "allow"]));
    assert_code(&allowed, 0);
    assert_eq!(
        stdout(&allowed),
        format!(
            "`{}` may set ANTHROPIC_API_KEY as long as it does not change\n",
            file.canonicalize().unwrap().display()
        )
    );
    assert_code(&answer(&[]), 0);
    assert_eq!(key().as_deref(), Some("key-first"));
    let record = place.home().join(".local/state/hotcell/env-files.json");
    let mode = fs::metadata(&record).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!fs::read_to_string(&record).unwrap().contains("key-first"));

    // Changed content is asked about again, and so is the same content behind a link elsewhere.
    fs::write(&file, "ANTHROPIC_API_KEY=key-second\n").unwrap();
    not_used("it has changed since you allowed it");
    fs::write(&file, "ANTHROPIC_API_KEY=key-first\n").unwrap();
    fs::create_dir(place.here("other")).unwrap();
    symlink("../.env", place.here("other/.env")).unwrap();
    let mut elsewhere = place.hotcell(["config"]);
    let output = run(elsewhere.current_dir(place.here("other")));
    assert!(
        stderr(&output).contains("you have not allowed it"),
        "{output:?}"
    );
    assert_code(&answer(&[]), 0);
    assert_code(&run(&mut place.hotcell(["env", "forget"])), 0);
    not_used("you have not allowed it");
    assert_eq!(scene.server.request_count(), 3);
}

#[test]
fn a_person_is_asked_once_about_each_content() {
    let scene = Scene::new(["1", "2", "3"].map(say));
    let place = &scene.place;
    let url = scene.server.base_url();
    let variables = [("ANTHROPIC_BASE_URL", url.as_str())];
    let here = place.here("").canonicalize().unwrap();
    let question = |changed: &str| {
        format!(
            "`.env` in `{}` {changed}sets ANTHROPIC_API_KEY. Use it? [y/N] ",
            here.display()
        )
    };
    fs::write(place.here(".env"), "ANTHROPIC_API_KEY=key-first\n").unwrap();
    let mut person = TerminalUser::at(place, "run Answer", &variables);
    person.wait_for(&question(""));
    person.types("y\n");
    assert_code(&person.close_input(), 0);
    // The answer is stored.
    assert_code(
        &TerminalUser::at(place, "run Answer", &variables).close_input(),
        0,
    );
    fs::write(place.here(".env"), "ANTHROPIC_API_KEY=key-second\n").unwrap();
    let mut person = TerminalUser::at(place, "run Answer", &variables);
    person.wait_for(&question("has changed: it "));
    person.types("\n");
    person.wait_for("you have refused it");
    assert_code(&person.close_input(), 2);
    let mut person = TerminalUser::at(place, "run Answer", &variables);
    let said = person.wait_for("ANTHROPIC_API_KEY is not set");
    assert!(
        said.contains("you have refused it") && !said.contains("[y/N]"),
        "{said}"
    );
    assert_code(&person.close_input(), 2);
    assert_eq!(scene.server.request_count(), 2);
}

#[test]
fn whatever_stands_at_the_place_of_an_env_file_hangs_nothing() {
    let check = |prepare: &dyn Fn(&Place), why: &str| {
        let place = Place::with_workspace();
        prepare(&place);
        let output = place.exec(&[], "echo in");
        assert_code(&output, 0);
        let expect = format!("hotcell: `.env` is not used: {why}\n");
        assert_eq!(
            (stdout(&output).as_str(), stderr(&output)),
            ("in\n", expect)
        );
        let output = run(&mut place.hotcell(["config", "--env-file", ".env"]));
        assert_code(&output, 2);
        assert_eq!(
            stderr(&output),
            format!("hotcell: cannot read the env file `.env`: {why}\n")
        );
    };
    check(&|place| plant(place, "mkfifo .env"), "it is a FIFO");
    check(
        &|place| plant(place, "ln -s /dev/zero .env"),
        "it is a device",
    );
    check(&|place| plant(place, "mkdir .env"), "it is a folder");
    check(
        &|place| plant(place, "truncate -s 65537 .env"),
        "it is longer than 64K",
    );
    let socket = |place: &Place| drop(UnixListener::bind(place.here(".env")).unwrap());
    check(&socket, "it is a socket");
    check(
        &|place| plant(place, "printf '\\377' > .env"),
        "it is not UTF-8 text",
    );
    check(
        &|place| plant(place, "echo \"MODEL='open\" > .env"),
        "the value of MODEL must be one word or quoted",
    );
    // A dangling link counts as no file.
    let place = Place::with_workspace();
    symlink("nowhere", place.here(".env")).unwrap();
    let output = place.exec(&[], "echo in");
    assert_eq!(
        (stdout(&output).as_str(), stderr(&output).as_str()),
        ("in\n", "")
    );
    // Other files that are read at a start.
    for name in ["config.toml", "rules.toml"] {
        let place = Place::with_workspace();
        let folder = place.home().join(".config/hotcell");
        fs::create_dir_all(&folder).unwrap();
        mkfifo(&folder.join(name), Mode::S_IRWXU).unwrap();
        let mut command = place.hotcell(["run", "Answer"]);
        let output = run(command.env("ANTHROPIC_API_KEY", KEY));
        assert_code(&output, 2);
        assert!(stderr(&output).ends_with("it is a FIFO\n"), "{output:?}");
    }
    let place = Place::with_workspace();
    mkfifo(&place.here("replies"), Mode::S_IRWXU).unwrap();
    let output = run(&mut place.hotcell(["run", "--model", "scripted/replies", "Answer"]));
    assert_code(&output, 2);
    assert!(stderr(&output).contains("it is a FIFO\n"), "{output:?}");
}

#[test]
fn a_link_in_the_place_of_the_workspace_is_refused() {
    let check = |link: &str, to: &str, safedir: Option<&str>, shown: &str| {
        let place = Place::new();
        let secret = place.home().join("secret");
        fs::create_dir(&secret).unwrap();
        fs::create_dir(place.here("real")).unwrap();
        let to = to.replace("SECRET", secret.to_str().unwrap());
        plant(&place, &format!("rm -rf {link}; ln -s {to} {link}"));
        let before = place.everything();
        let mut command = place.hotcell(["exec", "--", "touch", "planted"]);
        let output = run(command.envs(safedir.map(|path| ("SAFEDIR", path))));
        assert_code(&output, 2);
        let said = stderr(&output).replace(&*place.here("").to_string_lossy(), "HERE/");
        assert_eq!(
            said,
            format!(
                "hotcell: cannot use `{shown}` for the workspace: `HERE/{link}` is a symbolic \
                 link\nhint: a sandbox may have made it: if you trust it, name the folder with \
                 `--workspace`\n"
            )
        );
        assert_eq!(place.everything(), before);
        // Naming the folder allows the link.
        if safedir.is_none() && to.starts_with('/') {
            let named = ["exec", "--workspace", "workspace", "--", "touch", "wanted"];
            assert_code(&run(&mut place.hotcell(named)), 0);
            assert!(secret.join("wanted").exists());
        }
    };
    check("workspace", "SECRET", None, "./workspace");
    check("workspace", "nowhere", None, "./workspace");
    check("real", "SECRET", Some("real"), "real");
    check("real", "SECRET", Some("./real/below"), "./real/below");
}

#[test]
fn a_session_is_not_taken_up_where_a_link_leads_elsewhere() {
    let scene = Scene::new(["1", "2"].map(say));
    let place = &scene.place;
    assert_code(&scene.run(&["run", "Answer"]), 0);
    let session = scene.session();
    let workspace = place.here("workspace").canonicalize().unwrap();
    let secret = place.home().join("secret");
    fs::create_dir(&secret).unwrap();
    plant(place, "mv workspace moved");
    symlink(&secret, place.here("workspace")).unwrap();
    for arguments in [
        &["resume", &session, "-p", "Answer"][..],
        &["undo", &session],
    ] {
        let output = scene.run(arguments);
        assert_code(&output, 2);
        assert_eq!(
            stderr(&output),
            format!(
                "hotcell: the workspace of session {session}, `{}`, now leads to `{}`\n\
                 hint: if that is intended, name the folder with `--workspace`\n",
                workspace.display(),
                secret.canonicalize().unwrap().display()
            )
        );
    }
    assert_eq!(fs::read_dir(&secret).unwrap().count(), 0);
    assert_eq!(scene.server.request_count(), 1);
}

#[test]
fn settings_that_a_sandbox_could_rewrite_are_refused() {
    let place = Place::with_workspace();
    fs::write(place.here("workspace/own.toml"), "[backends]\n").unwrap();
    let mut command = place.hotcell(["exec", "--", "true"]);
    let output = run(command.env("HOTCELL_CONFIG", "workspace/own.toml"));
    // `exec` uses no settings file but the default one.
    assert_code(&output, 0);
    let mut command = place.hotcell(["run", "--config", "workspace/own.toml", "Answer"]);
    let output = run(command.env("ANTHROPIC_API_KEY", KEY));
    assert_code(&output, 2);
    assert!(
        stderr(&output)
            .starts_with("hotcell: the settings `workspace/own.toml` lie inside the workspace\n"),
        "{output:?}"
    );
    fs::write(place.here("workspace/.env"), "ANTHROPIC_API_KEY=x\n").unwrap();
    let output = run(&mut place.hotcell(["run", "--env-file", "workspace/.env", "Answer"]));
    assert_code(&output, 2);
    assert!(
        stderr(&output)
            .starts_with("hotcell: the env file `workspace/.env` lies inside the workspace\n"),
        "{output:?}"
    );
}

#[test]
fn every_start_names_the_folder() {
    let scene = Scene::new(["1", "2"].map(say));
    let place = &scene.place;
    fs::create_dir(place.here("real")).unwrap();
    symlink("real", place.here("named")).unwrap();
    let real = place.here("real").canonicalize().unwrap();
    let line = format!("workspace: {}\n", real.display());
    for arguments in [
        &["run", "--workspace", "named", "Answer"][..],
        &["resume", "--workspace", "named", "-p", "Answer"],
        &["undo", "--workspace", "real"],
    ] {
        let output = scene.run(arguments);
        assert_code(&output, 0);
        assert!(stderr(&output).contains(&line), "{output:?}");
    }
    // Standard error passes through unchanged, so the folder is shown only on a terminal if none was named.
    let mut person = TerminalUser::at(place, "exec -- true", &[]);
    let own = place.here("").canonicalize().unwrap().join("workspace");
    person.wait_for(&format!("hotcell: workspace: {}", own.display()));
    assert_code(&person.close_input(), 0);
    assert_eq!(stderr(&place.exec(&[], "true")), "");
}

#[test]
fn sockets_in_the_workspace_are_named_at_the_start() {
    let place = Place::with_workspace();
    fs::create_dir(place.here("workspace/run")).unwrap();
    let _listener = UnixListener::bind(place.here("workspace/run/db.sock")).unwrap();
    let output = place.exec(&[], "echo in");
    let warning = "hotcell: the workspace has sockets: `run/db.sock`\n\
                   hint: commands can connect to the programs that listen there; move them out of the \
                   workspace, or use `--require kernel`\n";
    assert_eq!(
        (stdout(&output).as_str(), stderr(&output).as_str()),
        ("in\n", warning)
    );
}
