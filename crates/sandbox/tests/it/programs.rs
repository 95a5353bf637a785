//! Real programs work behind the system call filter: terminals, descriptors, sockets, locks, their
//! own sandboxes. Rows for programs that the sandbox lacks are skipped; the rows of the shell never
//! are.

use crate::under_test::nature::has_controlling_terminal;
use crate::world::{TestSandbox, text, within};

/// Program, script, expected output.
const PROGRAM_ROWS: &[(&str, &str, &str)] = &[
    (
        "bash",
        "bash -mc 'sleep 60 & kill %1; wait %1' 2> /dev/null; echo jobs",
        "jobs",
    ),
    ("bash", "f() { echo a | { read x; echo $x$x; }; }; f", "aa"),
    (
        "cp",
        "echo one > a && cp --reflink=auto a b && cat b",
        "one",
    ),
    ("sync", "echo two > c && sync c && sync && cat c", "two"),
    (
        "flock",
        "flock own.lock flock --nonblock own.lock true || echo locked",
        "locked",
    ),
    (
        "tail",
        ": > log; (sleep 0.2; echo late >> log; sleep 0.2) & tail -n 1 -f log --pid=$!",
        "late",
    ),
    (
        "git",
        "git init -q r && cd r && git config user.email a@b && git config user.name c && \
         echo x > f && git add f && git commit -qm first && git gc -q && git log --format=%s",
        "first",
    ),
    (
        "make",
        "printf 'all: a b c\\na b c:\\n\\t@sleep 0.1\\n' > Makefile && make -s -j3 && echo made",
        "made",
    ),
    (
        "cc",
        "printf 'int main(void){return 7;}' > m.c && cc -O1 m.c -o m && { ./m; echo $?; }",
        "7",
    ),
    (
        "python3",
        "python3 -c 'import fcntl, multiprocessing, os, pty, socket, subprocess, termios, mmap\n\
         a, b = socket.socketpair(); a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)\n\
         s = socket.create_server((\"127.0.0.1\", 0), reuse_port=True)\n\
         c = socket.create_connection(s.getsockname())\n\
         c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n\
         m, t = pty.openpty(); termios.tcgetattr(t)\n\
         mmap.mmap(-1, 4096).close(); fcntl.flock(open(\"l\", \"w\"), fcntl.LOCK_EX)\n\
         q = multiprocessing.Semaphore(); q.acquire()\n\
         print(subprocess.check_output([\"echo\", \"py\"]).decode(), end=\"\")'",
        "py",
    ),
    (
        "node",
        "node -e 'const fs = require(\"fs\"), net = require(\"net\"); fs.writeFileSync(\"n\", \"x\");\n\
         fs.copyFileSync(\"n\", \"n2\"); require(\"child_process\").execSync(\"true\");\n\
         const w = fs.watch(\".\", () => { w.close(); });\n\
         const s = net.createServer(c => c.end(\"node\")).listen(0, () =>\n\
           net.connect(s.address().port).on(\"data\", d => { console.log(String(d)); s.close();\n\
             fs.writeFileSync(\"n3\", \"y\"); }))'",
        "node",
    ),
    (
        "curl",
        "echo body > page && curl -s file://$PWD/page",
        "body",
    ),
    (
        "ssh-keygen",
        "ssh-keygen -q -t ed25519 -N '' -f key && ssh-keygen -l -f key | grep -o ED25519",
        "ED25519",
    ),
    (
        "ssh",
        "ssh -o BatchMode=yes -o ConnectTimeout=1 127.0.0.1 true 2>&1 | grep -o refused",
        "refused",
    ),
    (
        "file",
        "printf '#!/bin/sh\\n' > s && file s | grep -o script",
        "script",
    ),
    (
        "man",
        "printf '.TH T 1\\n.SH NAME\\nt \\\\- title\\n' > t.1 && man -l t.1 | grep -o title",
        "title",
    ),
    ("xz", "echo packed | xz | xz -d", "packed"),
];

/// The same on a terminal.
const TERMINAL_ROWS: &[(&str, &str, &str)] = &[
    (
        "script",
        "script -qec 'stty size; test -t 0 && echo tty' /dev/null | tail -n 1 | tr -d '\\r'",
        "tty",
    ),
    (
        "less",
        "script -qec 'echo paged | less -FX' /dev/null | tr -d '\\r' | grep -o paged",
        "paged",
    ),
    (
        "tmux",
        // Not `wait-for`: tmux forgets a signal if the session ends before somebody waits for it.
        "export TMUX_TMPDIR=/tmp; tmux -L t new-session -d 'echo seen > pane' && \
         while [ ! -s pane ]; do sleep 0.02; done; cat pane; tmux -L t kill-server 2> /dev/null; true",
        "seen",
    ),
];

#[test]
fn usual_programs_do_their_work() {
    within(async {
        let world = TestSandbox::new().await;
        let mut wrong = Vec::new();
        let on_terminal = has_controlling_terminal().then_some(TERMINAL_ROWS);
        for (program, script, expect) in
            PROGRAM_ROWS.iter().chain(on_terminal.into_iter().flatten())
        {
            let known = world.sh(&format!("command -v {program}")).await;
            if !known.verdict.success() {
                assert_ne!(*program, "bash");
                println!("{program} is not there");
                continue;
            }
            let folder = format!("mkdir -p {program}.d && cd {program}.d && ");
            let ran = world.sh(&(folder + script)).await;
            if text(&ran.stdout).trim() != *expect {
                wrong.push(format!("{program}: {ran:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        world.end().await;
    });
}
