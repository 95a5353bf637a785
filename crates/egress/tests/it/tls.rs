//! TLS inside a tunnel: the server name must be the target.

use tokio::io::AsyncReadExt;

use crate::fixture::{ProxyFixture, start_echo_server, start_recording_server, text};

/// A ClientHello in records of at most `size` bytes.
fn client_hello(name: Option<&str>, size: usize) -> Vec<u8> {
    fn list16(content: &[u8]) -> Vec<u8> {
        [&(content.len() as u16).to_be_bytes()[..], content].concat()
    }
    let mut extensions = vec![0, 43, 0, 3, 2, 3, 4];
    if let Some(name) = name {
        let entry = [&[0][..], &list16(name.as_bytes())].concat();
        extensions.extend([0, 0]);
        extensions.extend(list16(&list16(&entry)));
    }
    let mut body = vec![3, 3];
    body.extend([9; 32]);
    body.extend([0, 0, 2, 0x13, 1, 1, 0]);
    body.extend(list16(&extensions));
    let message = [&[1][..], &(body.len() as u32).to_be_bytes()[1..], &body].concat();
    message
        .chunks(size)
        .flat_map(|part| [&[22, 3, 1][..], &list16(part)].concat())
        .collect()
}

const ACCESS_DENIED_ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

#[tokio::test]
async fn a_hello_for_the_target_passes_as_it_is() {
    let port = start_echo_server().await;
    let world = ProxyFixture::for_server(port);
    for size in [1 << 14, 40, 7, 1] {
        for name in ["a.test", "A.TEST"] {
            let mut client = world.client();
            client.tunnel(&format!("a.test:{port}")).await;
            let bytes = [client_hello(Some(name), size), b"and early data".to_vec()].concat();
            client.send(&bytes).await;
            assert_eq!(client.finish().await, bytes, "{size}");
        }
    }
    assert_eq!(world.told().len(), 8);
    assert!(
        world
            .told()
            .iter()
            .all(|told| told.contains(" allowed by "))
    );
}

#[tokio::test]
async fn a_hello_that_comes_byte_by_byte_is_held_until_it_is_whole() {
    let port = start_echo_server().await;
    let world = ProxyFixture::for_server(port);
    let mut client = world.client();
    client.tunnel(&format!("a.test:{port}")).await;
    let bytes = client_hello(Some("a.test"), 50);
    for byte in &bytes[..bytes.len() - 1] {
        client.send([*byte]).await;
        tokio::task::yield_now().await;
        assert_eq!(world.told(), [""; 0]);
    }
    client.send(&bytes[bytes.len() - 1..]).await;
    let mut back = vec![0; bytes.len()];
    client.stream.read_exact(&mut back).await.unwrap();
    assert_eq!(back, bytes);
    assert_eq!(world.told().len(), 1);
}

#[tokio::test]
async fn a_hello_for_another_host_never_reaches_the_server() {
    let (port, seen) = start_recording_server().await;
    let world = ProxyFixture::for_server(port);
    let target = format!("a.test:{port}");
    let another = |name: &str| {
        format!(
            "{target} denied: TLS server name `{name}` differs from the CONNECT target `{target}`"
        )
    };
    let malformed =
        format!("{target} denied: malformed TLS hello, to the CONNECT target `{target}`");
    for (bytes, expect) in [
        (
            client_hello(Some("evil.test"), 1 << 14),
            another("evil.test"),
        ),
        (client_hello(Some("evil.test"), 3), another("evil.test")),
        (
            client_hello(Some("a.test.evil.test"), 999),
            another("a.test.evil.test"),
        ),
        (client_hello(Some("127.0.0.1"), 999), another("127.0.0.1")),
        (
            client_hello(None, 999),
            format!("{target} denied: TLS without a server name, to the CONNECT target `{target}`"),
        ),
        (
            client_hello(Some("a.test\0.evil.test"), 999),
            malformed.clone(),
        ),
        (client_hello(Some(""), 999), malformed.clone()),
        (vec![22, 3, 1, 0, 0], malformed.clone()),
    ] {
        world.forget();
        let mut client = world.client();
        client.tunnel(&target).await;
        client.send(&bytes).await;
        assert_eq!(client.rest().await, ACCESS_DENIED_ALERT);
        assert_eq!(world.told(), [expect]);
        assert_eq!(world.addresses(), [Some(format!("127.0.0.1:{port}"))]);
    }
    // An incomplete hello is not forwarded when the client ends.
    world.forget();
    let mut client = world.client();
    client.tunnel(&target).await;
    client.send(&client_hello(Some("a.test"), 999)[..30]).await;
    assert_eq!(client.finish().await, ACCESS_DENIED_ALERT);
    assert_eq!(world.told(), [malformed]);
    assert_eq!(text(&seen), "");
}

#[tokio::test]
async fn an_address_needs_no_name_but_takes_no_other() {
    let port = start_echo_server().await;
    let world = ProxyFixture::for_server(port);
    let target = format!("127.0.0.1:{port}");
    for (name, allowed) in [
        (None, true),
        (Some("a.test"), true),
        (Some("127.0.0.1"), true),
        (Some("evil.test"), false),
    ] {
        world.forget();
        let mut client = world.client();
        client.tunnel(&target).await;
        let bytes = client_hello(name, 999);
        client.send(&bytes).await;
        let back = if allowed {
            client.finish().await
        } else {
            client.rest().await
        };
        assert_eq!(
            back,
            if allowed {
                bytes
            } else {
                ACCESS_DENIED_ALERT.to_vec()
            }
        );
        assert_eq!(world.told().len(), 1);
        assert_eq!(world.told()[0].contains(" allowed by "), allowed);
    }
}
