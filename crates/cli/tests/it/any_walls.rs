//! The program end to end on the backend under test: a command, and an agent. The same for every
//! backend.

use std::fs;
use std::process::Command;

use crate::place::{Place, assert_code, run, stderr, stdout};
use crate::scene::{Scene, bash, results, say, write};
use crate::walls_under_test::{backend, flags, host_kernel, shares_kernel, variables};

fn behind_walls(mut command: Command) -> Command {
    command.envs(variables());
    command
}

#[test]
fn a_command_says_which_kernel_it_runs_on() {
    let place = Place::with_workspace();
    let flags = flags();
    let flags = flags.iter().map(String::as_str);
    let exec = |script: &'static str| {
        let rest = ["--", "sh", "-c", script];
        let arguments = ["exec"].into_iter().chain(flags.clone()).chain(rest);
        run(&mut behind_walls(place.hotcell(arguments)))
    };
    let output = exec("uname -a; uname -rv");
    assert_code(&output, 0);
    let said = stdout(&output);
    let (all, kernel) = said.trim().split_once('\n').unwrap();
    assert!(all.starts_with("Linux hotcell "), "{said}");
    assert_eq!(kernel == host_kernel(), shares_kernel(), "{said}");

    let output = exec("id -u; pwd; echo kept > file; echo error >&2; exit 7");
    assert_code(&output, 7);
    assert_eq!(stdout(&output), "1000\n/workspace\n");
    assert_eq!(stderr(&output), "error\n");
    let kept = fs::read_to_string(place.here("workspace/file")).unwrap();
    assert_eq!(kept, "kept\n");
}

#[test]
fn an_agent_works_behind_them() {
    let scene = Scene::new(vec![
        write("hello.py", "print(\"Hello, World!\")\n"),
        bash("python3 hello.py; cd /tmp; x=kept"),
        bash(
            "echo $x $PWD; (exec 3<>/dev/tcp/192.0.2.1/80) 2>/dev/null || echo no way out; exit 3",
        ),
        say("`hello.py` prints the greeting."),
    ]);
    let flags = flags();
    let flags = flags.iter().map(String::as_str);
    let arguments = ["run"].into_iter().chain(flags).chain(["Greet the world"]);
    let output = run(&mut behind_walls(scene.hotcell(arguments)));
    assert_code(&output, 0);
    assert_eq!(stdout(&output), "`hello.py` prints the greeting.\n");
    let said = stderr(&output);
    assert!(
        said.contains(&format!("sandbox: {} walls", backend())),
        "{said}"
    );
    assert!(said.contains("  │ Hello, World!"), "{said}");
    let requests = scene.server.requests();
    assert!(results(&requests[2])[0].contains("Hello, World!"));
    // One sandbox for all calls: the shell keeps its state.
    let last = &results(&requests[3])[0];
    assert!(last.contains("kept /tmp"), "{last}");
    assert!(last.contains("no way out"), "{last}");
    assert_eq!(scene.read("hello.py"), "print(\"Hello, World!\")\n");
}
