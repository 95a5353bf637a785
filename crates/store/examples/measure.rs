//! Measures the operations that requests wait for: opening a store, appending, listing, searching.
//! `cargo run --release -p store --example measure [FOLDER]`

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use protocol::{Block, EventKind, SessionId, Stop, Usage};
use store::{ContentHash, FileRecord, FileStamp, RecordedKind, SessionQuery, SessionStore};

type Failure = Box<dyn std::error::Error>;

const SESSIONS: u32 = 10_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let folder = std::env::args().nth(1).map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| std::env::temp_dir().join("hotcell-measure-store"));
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    fsync(&folder)?;
    fill(&folder).await?;
    close(SessionStore::open(&folder).await?);
    open(&folder).await?;
    let store = SessionStore::open(&folder).await?;
    append(&store).await?;
    list(&store).await?;
    checkpoint(&store).await?;
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// The cost of the disk alone.
fn fsync(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join("probe");
    let mut file = std::fs::File::create(&path)?;
    let mut times = Vec::new();
    for _ in 0..300 {
        let begun = Instant::now();
        file.write_all(&[7; 4096 * 3])?;
        file.sync_data()?;
        times.push(begun.elapsed());
    }
    std::fs::remove_file(path)?;
    report("12 KiB and fdatasync, alone", times)
}

async fn fill(folder: &Path) -> Result<(), Failure> {
    let store = SessionStore::open(folder).await?;
    for number in 0..SESSIONS {
        let mut journal = store.begin(session(number)).await?;
        journal.append(Timestamp::now(), start()).await?;
        let kind = prompt(&format!("task {number} about the parser of dates"));
        journal.append(Timestamp::now(), kind).await?;
    }
    Ok(())
}

async fn open(folder: &Path) -> Result<(), Failure> {
    let mut times = Vec::new();
    for _ in 0..50 {
        let begun = Instant::now();
        let store = SessionStore::open(folder).await?;
        times.push(begun.elapsed());
        close(store);
    }
    report("open", times)?;
    let mut times = Vec::new();
    for number in 0..50 {
        let begun = Instant::now();
        let store = SessionStore::open(folder).await?;
        let journal = store.begin(session(SESSIONS + 100 + number)).await?;
        times.push(begun.elapsed());
        drop(journal);
        close(store);
    }
    report("open and begin", times)
}

/// Waits until the connections are closed, which happens in separate threads and would slow down the next
/// open.
fn close(store: SessionStore) {
    drop(store);
    std::thread::sleep(Duration::from_millis(20));
}

async fn append(store: &SessionStore) -> Result<(), Failure> {
    let mut journal = store.begin(session(SESSIONS)).await?;
    journal.append(Timestamp::now(), start()).await?;
    let text = "some words of a tool's output ".repeat(70);
    for (what, kind) in [
        ("append of 2 KB", EventKind::Noted { text: text.clone() }),
        ("append of 2 KB, indexed", reply(&text)),
        (
            "append of 100 KB",
            EventKind::Noted {
                text: text.repeat(50),
            },
        ),
    ] {
        let mut times = Vec::new();
        for _ in 0..1000 {
            let kind = kind.clone();
            let begun = Instant::now();
            journal.append(Timestamp::now(), kind).await?;
            times.push(begun.elapsed());
        }
        report(what, times)?;
    }
    drop(journal);
    let begun = Instant::now();
    let (_, events) = store.claim(&session(SESSIONS)).await?;
    report(
        &format!("claim of {} events", events.len()),
        vec![begun.elapsed()],
    )
}

async fn list(store: &SessionStore) -> Result<(), Failure> {
    let mut times = Vec::new();
    for _ in 0..100 {
        let begun = Instant::now();
        let page = SessionQuery {
            limit: 50,
            ..SessionQuery::default()
        };
        assert_eq!(store.sessions(&page).await?.len(), 50);
        times.push(begun.elapsed());
    }
    report("list of 50 among 10,000", times)?;
    for words in ["task 77 dates", "parser dates", "nowhere"] {
        let begun = Instant::now();
        store.search(words, 20).await?;
        report(&format!("search for `{words}`"), vec![begun.elapsed()])?;
    }
    Ok(())
}

async fn checkpoint(store: &SessionStore) -> Result<(), Failure> {
    let files: Vec<FileRecord> = (0..10_000_u64).map(file).collect();
    let hashes: Vec<ContentHash> = files.iter().map(hash).collect();
    let begun = Instant::now();
    let missing = store.missing(&hashes).await?;
    let contents = missing.iter().map(|hash| (*hash, vec![hash.0[0]; 4000]));
    store.put_contents(contents.collect()).await?;
    report("missing and put of 10,000 contents", vec![begun.elapsed()])?;
    let (mut asking, mut saving) = (Vec::new(), Vec::new());
    for number in 1..=20 {
        let begun = Instant::now();
        store.missing(&hashes).await?;
        asking.push(begun.elapsed());
        let begun = Instant::now();
        store
            .save_checkpoint(&session(SESSIONS), number, &files, 1 << 30)
            .await?;
        saving.push(begun.elapsed());
    }
    report("missing of 10,000, none missing", asking)?;
    report("save of 10,000 files, none changed", saving)
}

fn hash(file: &FileRecord) -> ContentHash {
    match file.kind {
        RecordedKind::File { content, .. } => content,
        RecordedKind::Folder | RecordedKind::Symlink { .. } => ContentHash([0; 32]),
    }
}

fn file(number: u64) -> FileRecord {
    let mut hash = [0; 32];
    hash[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    FileRecord {
        path: format!("crates/some/folder/src/file_{number}.rs").into_bytes(),
        kind: RecordedKind::File {
            size: 4000,
            content: ContentHash(hash),
        },
        mode: 0o644,
        stamp: FileStamp {
            inode: number,
            modified: 1_790_000_000_000_000_000,
            changed: 1_790_000_000_000_000_000,
        },
    }
}

fn session(number: u32) -> SessionId {
    let begun = jiff::civil::datetime(2026, 1, 1, 0, 0, 0, 0);
    let begun = begun + jiff::SignedDuration::from_secs(i64::from(number));
    SessionId::new(&begun, number)
}

fn start() -> EventKind {
    EventKind::SessionStarted {
        release: "0".into(),
        workspace: "/home/someone/project".into(),
        model: "some-model".into(),
        forked_from: None,
    }
}

fn prompt(text: &str) -> EventKind {
    EventKind::TurnStarted {
        turn: 1,
        prompt: vec![Block::text(text)],
    }
}

fn reply(text: &str) -> EventKind {
    EventKind::Replied {
        turn: 1,
        content: vec![Block::text(text)],
        stop: Stop::EndTurn,
        broken_calls: Default::default(),
        usage: Usage::default(),
        cost: Some(0.01),
        model: "some-model".into(),
    }
}

fn report(what: &str, mut times: Vec<Duration>) -> Result<(), Failure> {
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e3;
    let (median, late) = (at(50), at(99));
    writeln!(
        std::io::stdout(),
        "{what}: median {median:.3} ms, 99 % {late:.3} ms, of {}",
        times.len()
    )?;
    Ok(())
}
