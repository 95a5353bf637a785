//! Uploads and repositories, valid and malicious, and how they are put into a workspace.

#![allow(clippy::unwrap_used)]

mod repository;

use std::os::unix::fs::symlink;
use std::process::Command;

use jiff::Timestamp;
use protocol::job::{JobId, JobRequest, JobState};
use tempfile::TempDir;
use uuid::Uuid;

use super::*;

fn job(input: Option<JobInput>) -> Job {
    let request = JobRequest {
        task: "Do this.\n".to_owned(),
        input,
        ..JobRequest::default()
    };
    Job {
        state: JobState::Running,
        epoch: 1,
        revision: 1,
        ..Job::new(
            JobId(Uuid::now_v7()),
            "owner".to_owned(),
            request,
            Timestamp::now(),
        )
    }
}

struct InputScene {
    data: TempDir,
    job: Job,
    folder: JobFolder,
    spec: SandboxSpec,
}

impl InputScene {
    fn new(input: Option<JobInput>) -> Self {
        let data = tempfile::tempdir().unwrap();
        let job = job(input);
        let folder = JobFolder::new(data.path(), job.id);
        let mut spec = SandboxSpec::new(folder.workspace());
        spec.limits.disk = 16 << 20;
        Self {
            data,
            job,
            folder,
            spec,
        }
    }

    /// With a zip that a Python script writes.
    fn with_zip(script: &str) -> Self {
        let scene = Self::new(Some(JobInput::Upload { bytes: 1 }));
        fs::create_dir_all(scene.folder.path()).unwrap();
        let script = format!("import sys, zipfile, struct\npath = sys.argv[1]\n{script}");
        let mut python = Command::new("python3");
        python
            .args(["-W", "ignore", "-c", &script])
            .arg(scene.folder.upload());
        assert!(python.status().unwrap().success());
        scene
    }

    async fn prepare(&self) -> Result<(), String> {
        let prepared = prepare(&self.job, &self.folder, &self.spec).await;
        prepared.map_err(|error| error.to_string())
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.folder.workspace().join(path)).unwrap()
    }
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn a_job_without_input_has_an_empty_workspace() {
    let scene = InputScene::new(None);
    scene.prepare().await.unwrap();
    assert_eq!(
        fs::read_to_string(scene.folder.input()).unwrap(),
        "Do this.\n"
    );
    assert_eq!(fs::read_dir(scene.folder.workspace()).unwrap().count(), 0);
    assert_eq!(mode(scene.folder.path()), 0o700);
    assert_eq!(mode(&scene.folder.workspace()), 0o755);
    assert!(scene.folder.logs().is_dir());
    // Preparing again keeps the job's changes.
    fs::write(scene.folder.workspace().join("work"), "done").unwrap();
    scene.prepare().await.unwrap();
    assert_eq!(scene.read("work"), "done");
}

#[tokio::test]
async fn input_that_was_half_prepared_at_a_crash_is_prepared_again() {
    let scene = InputScene::with_zip("zipfile.ZipFile(path, 'w').writestr('a', 'whole')");
    let partial = scene.folder.path().join("workspace.partial");
    fs::create_dir_all(partial.join("old")).unwrap();
    symlink("/etc", partial.join("a")).unwrap();
    scene.prepare().await.unwrap();
    assert_eq!(scene.read("a"), "whole");
    assert_eq!(fs::read_dir(scene.folder.workspace()).unwrap().count(), 1);
    assert!(!partial.exists());
}

#[tokio::test]
async fn an_honest_zip_is_unpacked() {
    let scene = InputScene::with_zip(
        r"
with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as z:
    z.writestr('src/main.rs', 'fn main() {}\n' * 1000)
    z.writestr('./docs//größe.txt', 'x')
    z.writestr('A', 'upper'); z.writestr('a', 'lower')
    z.mkdir('empty')
    z.writestr('..hidden', 'y')
    info = zipfile.ZipInfo('run.sh'); info.external_attr = 0o104755 << 16
    z.writestr(info, '#!/bin/sh')",
    );
    check_zip(scene.folder.upload(), scene.spec.limits.disk)
        .await
        .unwrap();
    scene.prepare().await.unwrap();
    assert_eq!(scene.read("src/main.rs").len(), 13_000);
    assert_eq!(scene.read("docs/größe.txt"), "x");
    assert_eq!(
        (scene.read("A"), scene.read("a")),
        ("upper".into(), "lower".into())
    );
    assert_eq!(scene.read("..hidden"), "y");
    assert!(scene.folder.workspace().join("empty").is_dir());
    assert_eq!(mode(&scene.folder.workspace().join("run.sh")), 0o755);
    assert_eq!(mode(&scene.folder.workspace().join("a")), 0o644);
    // The zip is kept, for a retry from the start.
    assert!(scene.folder.upload().exists());
}

#[tokio::test]
async fn the_server_unpacks_what_it_packed() {
    let scene = InputScene::new(Some(JobInput::Upload { bytes: 1 }));
    let source = scene.data.path().join("source");
    fs::create_dir_all(source.join("sub")).unwrap();
    fs::write(source.join("sub/file"), "text").unwrap();
    fs::create_dir_all(scene.folder.path()).unwrap();
    let bounds = crate::artifact::ZipLimits::of(1 << 20);
    crate::artifact::pack(&source, &scene.folder.upload(), bounds).unwrap();
    scene.prepare().await.unwrap();
    assert_eq!(scene.read("sub/file"), "text");
}

#[tokio::test]
async fn a_hostile_zip_is_refused_whole() {
    for (script, expect) in [
        (
            "z.writestr('../evil', '')",
            "`../evil` leads out of the workspace",
        ),
        (
            "z.writestr('a/../../evil', '')",
            "`a/../../evil` leads out of the workspace",
        ),
        (
            "z.writestr('/evil', '')",
            "`/evil` does not begin in the workspace",
        ),
        (
            "z.writestr(r'..\\evil', '')",
            "`..\\\\evil` has a character that names must not have",
        ),
        ("z.writestr('.', '')", "`.` is no name"),
        ("z.writestr('a' * 5000, '')", "has too long a name"),
        ("z.writestr('x' * 256, '')", "has too long a name"),
        ("z.writestr('x/' * 101, '')", "is too deep"),
        (
            // 16 MiB of disk are 4,096 folders, and these are 4,100.
            "for n in range(41): z.mkdir(f'{n}/' + 'x/' * 99)",
            "its contents are larger than the job's disk limit",
        ),
        (
            "for n in range(4097): z.writestr(str(n), '')",
            "its contents are larger than the job's disk limit",
        ),
        (
            "z.writestr('a', ''); z.writestr('a', '')",
            "it has two entries of the same name",
        ),
        (
            "z.writestr('a', ''); z.writestr('./a', '')",
            "`./a` is in it twice",
        ),
        (
            "z.writestr('a', ''); z.writestr('a/b', '')",
            "`a/b` is in it twice",
        ),
        (
            "z.writestr('a/b', ''); z.writestr('a', '')",
            "`a` is in it twice",
        ),
        (
            "i = zipfile.ZipInfo('link'); i.create_system = 3; i.external_attr = 0o120777 << 16
    z.writestr(i, '/etc'); z.writestr('link/passwd', 'evil')",
            "`link` is a link",
        ),
        (
            "i = zipfile.ZipInfo('device'); i.create_system = 3; i.external_attr = 0o020666 << 16
    z.writestr(i, '')",
            "`device` is neither a file nor a folder",
        ),
        (
            "z.writestr('zeros', bytes(15 << 20))",
            "its contents are more than 200 times as large as it is",
        ),
        (
            "import os; z.writestr('noise', os.urandom(17 << 20))",
            "its contents are larger than the job's disk limit",
        ),
        (
            "for n in range(100001): z.writestr(str(n), '')",
            "it has too many entries",
        ),
    ] {
        let scene = InputScene::with_zip(&format!(
            "with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as z:\n    {script}"
        ));
        check_refused(&scene, expect).await;
    }
}

async fn check_refused(scene: &InputScene, expect: &str) {
    // The same error is found before the job is created.
    let checked = check_zip(scene.folder.upload(), scene.spec.limits.disk).await;
    let checked = checked.unwrap_err().to_string();
    assert!(checked.contains(expect), "{checked}");
    assert!(!scene.folder.workspace().exists());
    let error = scene.prepare().await.unwrap_err();
    assert!(
        error.starts_with("cannot unpack the uploaded zip: "),
        "{error}"
    );
    assert!(error.contains(expect), "{error}");
    assert!(!error.contains('\n'));
    assert!(!scene.folder.workspace().exists());
    let around: Vec<_> = fs::read_dir(scene.data.path()).unwrap().collect();
    assert_eq!(around.len(), 1);
}

#[tokio::test]
async fn a_zip_that_lies_is_refused_whole() {
    let simple = "
with zipfile.ZipFile(path, 'w') as z: z.writestr('a', b'A' * 100); z.writestr('b', b'B' * 100)
data = bytearray(open(path, 'rb').read())
first = data.index(b'PK\\x01\\x02'); second = data.index(b'PK\\x01\\x02', first + 4); end = data.index(b'PK\\x05\\x06')
";
    let save = "\nopen(path, 'wb').write(data)";
    for (script, expect) in [
        ("data[first + 8] |= 1; data[6] |= 1", "it is encrypted"),
        ("data[60] ^= 1", "cannot be read"),
        // Both entries refer to the first one's data.
        ("data[second + 42:second + 46] = data[first + 42:first + 46]", "overlap"),
        ("del data[end - 20:]", "cannot unpack"),
        ("data[:] = b'no zip at all'", "cannot unpack"),
        ("data[:] = b''", "cannot unpack"),
        ("data[first + 10] = 99; data[8] = 99", "cannot unpack"),
        // Declares twenty million entries, in ZIP64 form.
        (
            "wide = struct.pack('<4sQHHIIQQQQ', b'PK\\x06\\x06', 44, 45, 45, 0, 0, 20 << 20, 20 << 20, 46 * (20 << 20), first)
data[end:end] = wide + struct.pack('<4sIQI', b'PK\\x06\\x07', 0, end, 1)
at = data.index(b'PK\\x05\\x06'); data[at + 8:at + 20] = b'\\xff' * 12",
            "it has too many entries",
        ),
    ] {
        let scene = InputScene::with_zip(&format!("{simple}{script}{save}"));
        check_refused(&scene, expect).await;
    }
    let scene = InputScene::new(Some(JobInput::Upload { bytes: 1 }));
    assert_eq!(
        scene.prepare().await.unwrap_err(),
        "the uploaded zip is gone"
    );
}
