//! TCP ports inside, reached from the host.

use sandbox::request::RefusalKind;
use sandbox::{ExecCommand, RunningCommand};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::world::{TestSandbox, assert_refused, ended, rest, until, within};
use sandbox::request::CommandStatus;

/// Answers each connection with what it was sent, in capitals, until the client ends its side.
const SERVER: &str = r#"
    use IO::Socket::INET;
    $| = 1;
    my $server = IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 50) or die $!;
    print $server->sockport, "\n";
    while (my $client = $server->accept) {
        next if fork;
        while (sysread($client, my $bytes, 65536)) {
            $bytes =~ tr/a-z/A-Z/;
            my $done = 0;
            $done += syswrite($client, $bytes, length($bytes) - $done, $done)
                while $done < length $bytes;
        }
        exit;
    }
"#;

async fn serve(world: &TestSandbox) -> (RunningCommand<'_>, u16) {
    let command = ExecCommand::new(["perl", "-e", SERVER]);
    let mut running = world.exec(command).await.unwrap();
    let port = until(&mut running, "\n").await;
    (running, port.trim().parse().unwrap())
}

#[test]
fn a_server_inside_is_reached_from_outside() {
    within(async {
        let world = TestSandbox::new().await;
        let (mut running, port) = serve(&world).await;
        let mut connection = world.connect(port).await.unwrap();
        connection.write_all(b"hello\n").await.unwrap();
        let mut answer = [0; 6];
        connection.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HELLO\n");
        // The end of one side is forwarded, then the other's.
        connection.write_all(b"bye").await.unwrap();
        connection.shutdown().await.unwrap();
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"BYE");

        // Many connections at once, and much data through one.
        let many = (0..20).map(|number| {
            let world = &world;
            async move {
                let mut connection = world.connect(port).await.unwrap();
                connection
                    .write_all(format!("n{number}").as_bytes())
                    .await
                    .unwrap();
                connection.shutdown().await.unwrap();
                let mut answer = String::new();
                connection.read_to_string(&mut answer).await.unwrap();
                assert_eq!(answer, format!("N{number}"));
            }
        });
        run_concurrently(many).await;
        let sent = vec![b'x'; 8 << 20];
        let (mut reader, mut writer) = tokio::io::split(world.connect(port).await.unwrap());
        let mut received = Vec::new();
        let write = async {
            writer.write_all(&sent).await.unwrap();
            writer.shutdown().await.unwrap();
        };
        let (_, read) = tokio::join!(write, reader.read_to_end(&mut received));
        assert_eq!(read.unwrap(), 8 << 20);
        assert!(received.iter().all(|byte| *byte == b'X'));

        running.remote().signal(libc::SIGKILL).await.unwrap();
        assert_eq!(
            rest(&mut running).await.verdict,
            ended(CommandStatus::Signal(9))
        );
        drop(running);
        world.end().await;
    });
}

/// Runs all of them concurrently in this task.
async fn run_concurrently(all: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut all: Vec<_> = all.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        all.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if all.is_empty() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
}

#[test]
fn nobody_listens_nobody_answers() {
    within(async {
        let world = TestSandbox::new().await;
        let refused = world.connect(9).await;
        assert_refused(
            refused.map(drop),
            RefusalKind::Other,
            "cannot connect to port 9 inside",
        );
        // The host's ports are not reachable.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let refused = world.connect(port).await;
        assert_refused(
            refused.map(drop),
            RefusalKind::Other,
            "cannot connect to port",
        );
        // Nor those of another sandbox.
        let other = TestSandbox::new().await;
        let (running, port) = serve(&other).await;
        let refused = world.connect(port).await;
        assert_refused(
            refused.map(drop),
            RefusalKind::Other,
            "cannot connect to port",
        );
        drop(running);
        other.end().await;
        world.end().await;
    });
}
