//! Output arrives unchanged: complete, in order, and in bounded memory.

use bytes::Bytes;
use sandbox::request::CommandStatus;
use sandbox::{CommandEvent, ExecCommand};

use crate::under_test::nature::resident;
use crate::under_test::portion;
use crate::world::{TestSandbox, ended, rest, status_field, within};

/// Pseudo-random bytes, the same for the same seed.
fn random_bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Compares a stream with numbered copies of a block, without keeping either.
struct ExpectedStream {
    block: Vec<u8>,
    copy: u64,
    /// The remaining part of the current copy.
    header: Vec<u8>,
    position: usize,
    seen: u64,
}

impl ExpectedStream {
    fn new(block: Vec<u8>) -> Self {
        Self {
            header: b"0\n".to_vec(),
            block,
            copy: 0,
            position: 0,
            seen: 0,
        }
    }

    fn compare(&mut self, mut bytes: &[u8]) {
        self.seen += bytes.len() as u64;
        while !bytes.is_empty() {
            let piece = if self.position < self.header.len() {
                &self.header[self.position..]
            } else {
                &self.block[self.position - self.header.len()..]
            };
            let length = piece.len().min(bytes.len());
            let is_same = piece[..length] == bytes[..length];
            assert!(
                is_same,
                "copy {} differs near byte {}",
                self.copy, self.position
            );
            bytes = &bytes[length..];
            self.position += length;
            if self.position == self.header.len() + self.block.len() {
                self.copy += 1;
                self.position = 0;
                self.header = format!("{}\n", self.copy).into_bytes();
            }
        }
    }
}

/// Peak memory of this process, in bytes.
fn peak_memory() -> u64 {
    let field = status_field(std::process::id(), "VmHWM").unwrap();
    let kilobytes: u64 = field.split_whitespace().next().unwrap().parse().unwrap();
    kilobytes * 1024
}

#[test]
fn a_gigabyte_passes_without_loss_in_bounded_memory() {
    within(async {
        let copies = portion(1024);
        let world = TestSandbox::new().await;
        // Not a power of two, so that buffer boundaries fall at different places.
        let block = random_bytes(0x1234_5678_9abc_def1, (1 << 20) + 7);
        std::fs::write(world.path("block"), &block).unwrap();
        let before = peak_memory();
        let script =
            format!("i=0; while [ $i -lt {copies} ]; do echo $i; cat block; i=$((i+1)); done");
        let mut running = world.exec(ExecCommand::script(script)).await.unwrap();
        let mut expected = ExpectedStream::new(block);
        let mut looks = 0;
        let mut most = 0;
        loop {
            match running.next().await.unwrap() {
                CommandEvent::Stdout(bytes) => expected.compare(&bytes),
                CommandEvent::Stderr(bytes) => panic!("{bytes:?}"),
                CommandEvent::Ended(verdict) => {
                    assert_eq!(verdict, ended(CommandStatus::Code(0)));
                    break;
                }
            }
            if expected.copy > looks * copies / 10 {
                looks += 1;
                most = most.max(world.stats().await.unwrap().memory);
            }
        }
        assert_eq!((expected.copy, expected.position), (copies, 0));
        assert!(expected.seen > copies << 20);
        // The kernel's sums are approximate: a later one can be slightly lower.
        let grown = peak_memory().saturating_sub(before);
        println!("guest and commands at most {most} bytes, this process grew by {grown}");
        assert!(
            looks > 5 && most < resident(32 << 20),
            "{most} bytes inside"
        );
        // Other tests run in this process, but the limit is still a small part of a gigabyte.
        assert!(grown < 256 << 20, "grew by {grown} bytes");
        drop(running);
        world.end().await;
    });
}

#[test]
fn every_byte_passes_both_ways() {
    within(async {
        let world = TestSandbox::new().await;
        let all: Vec<u8> = (0..=255).collect();
        let cases: [Vec<u8>; 6] = [
            Vec::new(),
            all.clone(),
            b"no newline at the end".to_vec(),
            b"\xff\xfe\x80 not \xc3\x28 UTF-8 \xed\xa0\x80\n".to_vec(),
            b"\r\n\0\x1a\x04\x03\x1b[31m\r".to_vec(),
            random_bytes(7, 3_000_001),
        ];
        for sent in cases {
            let mut running = world.exec(ExecCommand::new(["cat"]).stdin()).await.unwrap();
            let mut input = running.take_input().unwrap();
            let feed = async {
                input.write(Bytes::from(sent.clone())).await.unwrap();
                drop(input);
            };
            let (_, captured) = tokio::join!(feed, rest(&mut running));
            assert!(
                captured.stdout == sent,
                "{} bytes came back",
                captured.stdout.len()
            );
            assert_eq!(captured.verdict, ended(CommandStatus::Code(0)));
        }
        // On standard error as on standard output, and the two do not mix.
        let script = "perl -e 'print STDOUT map chr, 0..255; print STDERR map chr, reverse 0..255'";
        let captured = world.sh(script).await;
        assert_eq!(captured.stdout, all);
        assert_eq!(captured.stderr, all.into_iter().rev().collect::<Vec<u8>>());
        world.end().await;
    });
}

#[test]
fn much_passes_in_both_directions_at_once() {
    within(async {
        let length_in_all = portion(64) as usize * (1 << 20);
        let world = TestSandbox::new().await;
        let block = Bytes::from(random_bytes(99, 1 << 20));
        let mut running = world.exec(ExecCommand::new(["cat"]).stdin()).await.unwrap();
        let mut input = running.take_input().unwrap();
        let feed = async {
            for _ in 0..length_in_all / block.len() {
                input.write(block.clone()).await.unwrap();
            }
            drop(input);
        };
        let read = async {
            let mut length = 0;
            loop {
                match running.next().await.unwrap() {
                    CommandEvent::Stdout(bytes) => {
                        let mut rest = &bytes[..];
                        while !rest.is_empty() {
                            let at = length % block.len();
                            let part = rest.len().min(block.len() - at);
                            assert!(rest[..part] == block[at..at + part]);
                            length += part;
                            rest = &rest[part..];
                        }
                    }
                    CommandEvent::Stderr(bytes) => panic!("{bytes:?}"),
                    CommandEvent::Ended(verdict) => return (length, verdict),
                }
            }
        };
        let (_, outcome) = tokio::join!(feed, read);
        assert_eq!(outcome, (length_in_all, ended(CommandStatus::Code(0))));
        drop(running);
        world.end().await;
    });
}

#[test]
fn a_flood_that_nobody_reads_delays_nobody() {
    within(async {
        let world = TestSandbox::new().await;
        let mut floods = Vec::new();
        for script in ["yes", "yes >&2", "cat /dev/zero"] {
            floods.push(world.exec(ExecCommand::script(script)).await.unwrap());
        }
        // Each has filled its buffers before its first byte is read.
        for flood in &mut floods {
            assert!(!matches!(
                flood.next().await.unwrap(),
                CommandEvent::Ended(_)
            ));
        }
        for number in 0..50 {
            assert_eq!(
                world.text(&format!("echo {number}")).await,
                format!("{number}\n")
            );
        }
        world
            .write_file(
                "file",
                vec![1; 3 << 20],
                sandbox::request::WriteMode::Replace,
            )
            .await
            .unwrap();
        assert_eq!(
            world.read_file("file", 0, None).await.unwrap().1.len(),
            3 << 20
        );
        // Other large output passes while the floods are not read.
        let captured = world.sh("head -c 20000000 /dev/zero").await;
        assert_eq!(captured.stdout.len(), 20_000_000);
        let stats = world.stats().await.unwrap();
        assert!(stats.memory < resident(48 << 20), "{stats:?}");
        // Reading a flood continues where it stopped.
        for flood in &mut floods {
            for _ in 0..50 {
                assert!(!matches!(
                    flood.next().await.unwrap(),
                    CommandEvent::Ended(_)
                ));
            }
            flood.remote().signal(libc::SIGKILL).await.unwrap();
            assert_eq!(rest(flood).await.verdict, ended(CommandStatus::Signal(9)));
        }
        drop(floods);
        world.end().await;
    });
}
