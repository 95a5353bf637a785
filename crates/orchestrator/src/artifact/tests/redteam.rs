//! The red team's attacks on artifacts, lines 77 to 82 of its list: a program in a real sandbox
//! fills the workspace, and the host packs it, partly at the same time.

use std::fs;
use std::os::unix::fs::FileTypeExt;

use sandbox::{CapturedOutput, Sandbox, SandboxLimits, SandboxSpec};

use super::*;

/// Runs a program inside a sandbox on a scene's workspace; returns its output.
async fn run_in_sandbox(scene: &ArtifactScene, script: &str) -> String {
    let sandbox = Sandbox::start(spec(scene)).await.unwrap();
    let captured = run(&sandbox, script).await;
    sandbox.end().await;
    String::from_utf8(captured.stdout).unwrap()
}

fn spec(scene: &ArtifactScene) -> SandboxSpec {
    SandboxSpec {
        limits: SandboxLimits {
            disk: 8 << 30,
            ..SandboxLimits::default()
        },
        ..SandboxSpec::new(scene.workspace())
    }
}

async fn run(sandbox: &Sandbox, script: &str) -> CapturedOutput {
    let command = sandbox::ExecCommand::new(["python3", "-c", script]);
    let captured = sandbox.run(command).await.unwrap();
    let stderr = String::from_utf8_lossy(&captured.stderr);
    assert!(
        captured.verdict.success(),
        "{:?} {stderr}",
        captured.verdict
    );
    captured
}

/// Unpacks with both programs; returns all names that are then outside the target.
fn unpack_everywhere(scene: &ArtifactScene) -> Vec<String> {
    let mut strays = Vec::new();
    let script = "import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])";
    for program in [&["python3", "-c", script][..], &["unzip", "-q"]] {
        let around = tempfile::tempdir().unwrap();
        let into = around.path().join("a/b/into");
        fs::create_dir_all(&into).unwrap();
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).arg(scene.output());
        if program[0] == "unzip" {
            command.arg("-d");
        }
        let output = command.arg(&into).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let mut folders = vec![around.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let is_outside = !path.starts_with(&into) && !into.starts_with(&path);
                if is_outside || path.is_symlink() {
                    strays.push(path.display().to_string());
                }
                if path.symlink_metadata().unwrap().is_dir() {
                    folders.push(path);
                }
            }
        }
    }
    strays
}

#[tokio::test]
async fn line_77_names_that_lead_out_of_where_a_zip_is_unpacked() {
    let scene = ArtifactScene::new();
    let script = r"
import os
for name in [b'..\\..\\evil', b'\\evil', b'C:\\evil', b'C:evil', b'...', b'.. ', b'-rf', b'a\nb',
             b'\x1b]0;evil\x07', b'\xff\xfe', b'%2e%2e%2fevil', b'~', b'$(evil)', b'nul', b'..%c0%af']:
    open(name, 'w').close()
os.makedirs(b'..\\dir\\x/..\\..')
open(b'..\\dir\\x/..\\../f', 'w').close()
for name in ['../evil', '/evil', 'a/../../evil', './../evil']:
    try: open(name, 'w').close(); print(name)
    except OSError: pass";
    let written = run_in_sandbox(&scene, script).await;
    assert_eq!(written, "");
    let artifact = scene.pack(ZipLimits::of(MAX_ZIP_BYTES));
    let all = names(&scene.output());
    assert_eq!(all.len(), 16);
    for name in &all {
        let is_plain = |part: &str| !matches!(part, "" | "." | "..");
        assert!(name.split('/').all(is_plain), "{name:?}");
        assert!(
            !name.contains(|c: char| c == '\\' || c.is_control()),
            "{name:?}"
        );
    }
    assert!(all.contains(&"..%5C..%5Cevil".to_owned()), "{all:?}");
    assert!(all.contains(&"C%3Aevil".to_owned()), "{all:?}");
    // Every changed name is listed.
    let why = "in the zip, under this name and not its own";
    let renamed = artifact.left_out.iter().filter(|one| one.reason == why);
    assert_eq!(renamed.count(), 10, "{:?}", left_out(&artifact));
    assert_eq!(unpack_everywhere(&scene), [""; 0]);
}

#[tokio::test]
async fn line_78_zip_and_sparse_bombs() {
    let scene = ArtifactScene::new();
    let script = r"
import os, zipfile
for number in range(40):
    with open(f'sparse-{number}', 'wb') as file: file.truncate(60 << 20)
with open('huge', 'wb') as file: file.truncate(7 << 30)
with zipfile.ZipFile('nested.zip', 'w', zipfile.ZIP_DEFLATED) as nested:
    nested.writestr('zeros', bytes(100 << 20))
open('result.txt', 'w').write('result')";
    run_in_sandbox(&scene, script).await;
    let artifact = scene.pack(ZipLimits::of(MAX_ZIP_BYTES / 2));
    let packed = names(&scene.output());
    assert!(packed.contains(&"result.txt".to_owned()), "{packed:?}");
    assert!(packed.contains(&"nested.zip".to_owned()), "{packed:?}");
    let mut archive = ZipArchive::new(File::open(scene.output()).unwrap()).unwrap();
    let sizes = (0..archive.len()).map(|index| archive.by_index(index).unwrap().size());
    let unpacked: u64 = sizes.sum();
    let ratio = unpacked / artifact.bytes;
    assert!(
        unpacked < 128 << 20 || ratio <= 100,
        "{unpacked} of {}",
        artifact.bytes
    );
    assert!(artifact.bytes < 4 << 20);
    assert!(!packed.contains(&"huge".to_owned()));
}

#[tokio::test]
async fn line_79_links_out_of_the_workspace() {
    let scene = ArtifactScene::new();
    let secret = scene.home.path().join("secret");
    fs::write(&secret, "the host's secret").unwrap();
    let script = format!(
        r"
import os
os.symlink({secret:?}, 'file')
os.symlink('../secret', 'relative')
os.symlink('/', 'root')
os.symlink('/proc/self/root', 'magic')
os.symlink('loop', 'loop')
os.mkdir('folder')
os.symlink('..', 'folder/up')
open('own', 'w').write('own')
os.link('own', 'twin')"
    );
    run_in_sandbox(&scene, &script).await;
    let artifact = scene.pack(ZipLimits::of(MAX_ZIP_BYTES));
    let packed = contents(&scene.output());
    let expect = [("own", "own"), ("twin", "own")];
    assert_eq!(
        packed,
        expect.map(|(name, text)| (name.to_owned(), text.to_owned()))
    );
    assert_eq!(artifact.left_out.len(), 6);
}

#[tokio::test]
async fn line_80_device_nodes() {
    let scene = ArtifactScene::new();
    let script = r"
import os, socket, stat
os.mkfifo('fifo')
socket.socket(socket.AF_UNIX).bind('socket')
for name, kind, device in [('disk', stat.S_IFBLK, os.makedev(8, 0)), ('null', stat.S_IFCHR, os.makedev(1, 3)),
                           ('tty', stat.S_IFCHR, os.makedev(5, 0)), ('whiteout', stat.S_IFCHR, 0)]:
    try: os.mknod(name, 0o666 | kind, device); print(name)
    except OSError: pass
open('file', 'w').write('file')";
    let made = run_in_sandbox(&scene, script).await;
    let artifact = scene.pack(ZipLimits::of(MAX_ZIP_BYTES));
    for name in made.lines() {
        // Overlay file systems need this device, and it grants no access.
        assert_eq!(name, "whiteout");
    }
    assert_eq!(names(&scene.output()), ["file"]);
    let others = 2 + made.lines().count();
    assert_eq!(artifact.left_out.len(), others);
    let fifo = scene.workspace().join("fifo").symlink_metadata().unwrap();
    assert!(fifo.file_type().is_fifo());
}

#[tokio::test]
async fn line_81_too_many_files() {
    let scene = ArtifactScene::new();
    let script = r"
import os
for folder in range(60):
    os.mkdir(str(folder))
    for file in range(1000): os.close(os.open(f'{folder}/{file}', os.O_CREAT))
os.mkdir('one')
for file in range(45000): os.close(os.open(f'one/{file}', os.O_CREAT))
os.mkdir('deep'); os.chdir('deep')
for level in range(10000): os.mkdir('d'); os.chdir('d')";
    run_in_sandbox(&scene, script).await;
    let artifact = scene.pack(ZipLimits::of(MAX_ZIP_BYTES));
    assert!(artifact.files <= 100_000, "{}", artifact.files);
    assert!(artifact.files >= 95_000, "{}", artifact.files);
    let rest = "…: the workspace has more than 100000 files";
    assert_eq!(left_out(&artifact).last().unwrap(), rest);
    crate::tree::remove_tree(scene.home.path()).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn line_82_files_that_change_while_they_are_packed() {
    let scene = ArtifactScene::new();
    let sandbox = Sandbox::start(spec(&scene)).await.unwrap();
    let prepare = r"
import os
open('steady', 'w').write('steady')
for number in range(30): open(f'f{number}', 'wb').write(os.urandom(200000))";
    run(&sandbox, prepare).await;
    // Grows, shrinks, vanishes, comes back as a link, a folder or a FIFO, until it is stopped.
    let restless = r"
import os, random, shutil
print('ready', flush=True)
while not os.path.exists('stop'):
    name = f'f{random.randrange(30)}'
    kind = random.randrange(7)
    try:
        if kind == 0:
            # Nobody reads a FIFO that may be there.
            file = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW)
            os.write(file, os.urandom(300000)); os.close(file)
        elif kind == 1: os.truncate(name, random.randrange(1000))
        else:
            shutil.rmtree(name) if os.path.isdir(name) and not os.path.islink(name) else os.unlink(name)
            if kind == 2: os.symlink('/etc/passwd', name)
            elif kind == 3: os.mkfifo(name)
            elif kind == 4: os.mkdir(name); open(name + '/inner', 'w').write('inner')
            elif kind == 5: os.symlink('/etc', name)
            else: open(name, 'wb').write(os.urandom(200000))
    except OSError: pass";
    let command = sandbox::ExecCommand::new(["python3", "-c", restless]);
    let mut running = sandbox.exec(command).await.unwrap();
    let ready = running.next().await.unwrap();
    assert!(
        matches!(ready, sandbox::CommandEvent::Stdout(_)),
        "{ready:?}"
    );
    let passwd = fs::read("/etc/passwd").unwrap();
    tokio::task::block_in_place(|| {
        for _ in 0..40 {
            scene.pack(ZipLimits::of(MAX_ZIP_BYTES));
            let mut archive = ZipArchive::new(File::open(scene.output()).unwrap()).unwrap();
            let mut has_steady = false;
            for index in 0..archive.len() {
                let mut entry = archive.by_index(index).unwrap();
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).unwrap();
                assert!(bytes != passwd);
                has_steady |= bytes == b"steady";
            }
            assert!(has_steady);
        }
    });
    fs::write(scene.workspace().join("stop"), "").unwrap();
    let verdict = loop {
        if let sandbox::CommandEvent::Ended(verdict) = running.next().await.unwrap() {
            break verdict;
        }
    };
    // It was running all the time.
    assert!(verdict.success(), "{verdict:?}");
    sandbox.end().await;
}
