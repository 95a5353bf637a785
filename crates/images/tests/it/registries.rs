//! Pulls images from a real registry server (Debian's `docker-registry`) on this host, also after its
//! storage was tampered with.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use images::{Digest, ImageError, ImageStore, RegistryOptions, default_image_name, registry_of};
use oci_client::Reference;
use oci_client::client::{Client, ClientConfig, ClientProtocol};
use oci_client::manifest::OciManifest;
use oci_client::secrets::RegistryAuth;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixtures::{LayerBuilder, config, error_chain, gzip, listing, zstd};

/// A registry server, killed on drop.
struct RegistryServer {
    child: Child,
    folder: TempDir,
    address: String,
}

impl RegistryServer {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = json!({
            "version": "0.1",
            "log": { "level": "info", "accesslog": { "disabled": true } },
            "storage": { "filesystem": { "rootdirectory": folder.path().join("storage") } },
            "http": { "addr": "127.0.0.1:0" },
        });
        let file = folder.path().join("config.yml");
        // JSON is YAML.
        fs::write(&file, config.to_string()).unwrap();
        let mut child = Command::new("docker-registry")
            .arg("serve")
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines
            .find_map(|line| {
                let line = line.unwrap();
                let (_, rest) = line.split_once("listening on ")?;
                let end =
                    rest.find(|letter: char| !letter.is_ascii_digit() && !".:".contains(letter));
                Some(rest[..end.unwrap_or(rest.len())].to_owned())
            })
            .expect("the registry logs its address");
        // The pipe must be drained, or the registry blocks.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            child,
            folder,
            address,
        }
    }

    fn client(&self) -> Client {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Client::new(ClientConfig {
            protocol: ClientProtocol::Http,
            ..ClientConfig::default()
        })
    }

    fn reference(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    async fn push_blob(&self, name: &str, bytes: &[u8]) -> Digest {
        let reference: Reference = self.reference(name).parse().unwrap();
        let (client, digest) = (self.client(), Digest::of(bytes));
        client
            .store_auth_if_needed(&self.address, &RegistryAuth::Anonymous)
            .await;
        client
            .push_blob(&reference, bytes.to_vec(), &digest.to_string())
            .await
            .unwrap();
        digest
    }

    async fn push_manifest(&self, name: &str, manifest: &Value) {
        let reference: Reference = self.reference(name).parse().unwrap();
        let manifest: OciManifest = serde_json::from_value(manifest.clone()).unwrap();
        self.client()
            .push_manifest(&reference, &manifest)
            .await
            .unwrap();
    }

    /// Pushes an image. Returns its manifest.
    async fn push(&self, name: &str, layers: &[(Vec<u8>, Vec<u8>, &str)]) -> Value {
        let mut described = Vec::new();
        for (_, packed, kind) in layers {
            let digest = self.push_blob(name, packed).await;
            described.push(json!({
                "mediaType": format!("application/vnd.oci.image.layer.v1.tar{kind}"),
                "digest": digest.to_string(), "size": packed.len(),
            }));
        }
        let plain: Vec<Vec<u8>> = layers.iter().map(|(plain, ..)| plain.clone()).collect();
        let config = serde_json::to_vec(&config(&plain)).unwrap();
        let digest = self.push_blob(name, &config).await;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {
                "mediaType": "application/vnd.oci.image.config.v1+json",
                "digest": digest.to_string(), "size": config.len(),
            },
            "layers": described,
        });
        self.push_manifest(name, &manifest).await;
        manifest
    }

    fn blob_file(&self, digest: &str) -> PathBuf {
        let hex = digest.trim_start_matches("sha256:");
        let blobs = self
            .folder
            .path()
            .join("storage/docker/registry/v2/blobs/sha256");
        blobs.join(&hex[..2]).join(hex).join("data")
    }
}

impl Drop for RegistryServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn layers() -> Vec<(Vec<u8>, Vec<u8>, &'static str)> {
    let first = LayerBuilder::default()
        .folder("etc")
        .file("etc/a", "1")
        .file("etc/b", "2")
        .end();
    let second = LayerBuilder::default().file("etc/.wh.a", "").end();
    let third = LayerBuilder::default().file("etc/c", "3").end();
    vec![
        (first.clone(), gzip(&first), "+gzip"),
        (second.clone(), zstd(&second), "+zstd"),
        (third.clone(), third, ""),
    ]
}

/// Tampers with a file.
type BlobTampering = fn(&mut Vec<u8>);

struct PullFixture {
    folder: TempDir,
}

impl PullFixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    async fn pull(&self, reference: &str) -> Result<images::StoredImage, ImageError> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let store = ImageStore::open(self.folder.path());
        store
            .pull("test", reference, &RegistryOptions::default(), &mut |_| {})
            .await
    }

    #[track_caller]
    fn assert_nothing_left(&self) {
        for folder in ["work", "roots", "names"] {
            let entries = fs::read_dir(self.folder.path().join(folder));
            assert_eq!(entries.map_or(0, Iterator::count), 0, "{folder}");
        }
    }
}

#[tokio::test]
async fn what_was_pushed_is_what_is_pulled() {
    let server = RegistryServer::start();
    server.push("team/tools:1", &layers()).await;
    let place = PullFixture::new();
    let image = place.pull(&server.reference("team/tools:1")).await.unwrap();
    assert_eq!(listing(&image.root), "etc/ 755\netc/b 644 2\netc/c 644 3");
    // The image is already in the store, so nothing is fetched again.
    let again = place.pull(&server.reference("team/tools:1")).await.unwrap();
    assert_eq!((again.digest, again.root), (image.digest, image.root));
}

#[tokio::test]
async fn of_several_machines_this_one() {
    let server = RegistryServer::start();
    server.push("many:right", &layers()).await;
    server.push("many:wrong", &[layers().swap_remove(2)]).await;
    let here = config(&[])["architecture"].clone();
    let client = server.client();
    let mut entries = Vec::new();
    for (tag, architecture) in [("many:wrong", json!("s390x")), ("many:right", here)] {
        let reference: Reference = server.reference(tag).parse().unwrap();
        let accepted = ["application/vnd.oci.image.manifest.v1+json"];
        let (bytes, _) = client
            .pull_manifest_raw(&reference, &RegistryAuth::Anonymous, &accepted)
            .await
            .unwrap();
        entries.push(json!({
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": Digest::of(&bytes).to_string(), "size": bytes.len(),
            "platform": { "os": "linux", "architecture": architecture },
        }));
    }
    let index = |manifests: &[Value]| {
        json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": manifests,
        })
    };
    server.push_manifest("many:all", &index(&entries)).await;
    server
        .push_manifest("many:none", &index(&entries[..1]))
        .await;
    let place = PullFixture::new();
    let image = place.pull(&server.reference("many:all")).await.unwrap();
    assert_eq!(listing(&image.root), "etc/ 755\netc/b 644 2\netc/c 644 3");
    let place = PullFixture::new();
    let error = place
        .pull(&server.reference("many:none"))
        .await
        .unwrap_err();
    assert!(
        error_chain(&error).contains("it is for linux/s390x and not for linux/"),
        "{}",
        error_chain(&error)
    );
    place.assert_nothing_left();
    // A pull by digest.
    let digest = entries[1]["digest"].as_str().unwrap();
    let place = PullFixture::new();
    place
        .pull(&format!("{}@{digest}", server.reference("many")))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_registry_that_serves_something_else_is_refused() {
    let server = RegistryServer::start();
    let manifest = server.push("evil:1", &layers()).await;
    let spoil = |digest: &Value, change: BlobTampering| {
        let path = server.blob_file(digest.as_str().unwrap());
        let before = fs::read(&path).unwrap();
        let mut bytes = before.clone();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
        (path, before)
    };
    let cases: [(&Value, BlobTampering); 4] = [
        (&manifest["layers"][0]["digest"], |bytes| bytes[20] ^= 1),
        (&manifest["layers"][2]["digest"], |bytes| bytes[600] ^= 1),
        (&manifest["layers"][2]["digest"], |bytes| {
            bytes.extend([0; 512])
        }),
        (&manifest["config"]["digest"], |bytes| {
            let text = String::from_utf8(bytes.clone()).unwrap();
            *bytes = text.replace("PATH=/opt/bin", "PATH=/bad/bin").into_bytes();
        }),
    ];
    for (number, (digest, change)) in cases.into_iter().enumerate() {
        let (path, before) = spoil(digest, change);
        let place = PullFixture::new();
        let error = place.pull(&server.reference("evil:1")).await.unwrap_err();
        let said = error_chain(&error);
        let is_refused = said.contains("digest") || said.contains("are promised");
        assert!(is_refused, "{number}: {said}");
        place.assert_nothing_left();
        fs::write(path, before).unwrap();
    }
    PullFixture::new()
        .pull(&server.reference("evil:1"))
        .await
        .unwrap();
}

#[tokio::test]
async fn what_a_registry_cannot_give() {
    let server = RegistryServer::start();
    let manifest = server.push("good:1", &layers()).await;
    let mut chart = manifest.clone();
    chart["config"]["mediaType"] = json!("application/vnd.cncf.helm.config.v1+json");
    server.push_manifest("good:chart", &chart).await;
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let lost = layers().swap_remove(2).1;
    for (reference, why) in [
        (server.reference("good:2"), "there is no such image"),
        (server.reference("none:1"), "there is no such image"),
        (server.reference("good:chart"), "not that of an image"),
        (format!("{closed}/x:1"), "Connection refused"),
        (
            "UPPER/CASE".to_owned(),
            "cannot understand the reference `UPPER/CASE`",
        ),
        ("a b".to_owned(), "cannot understand the reference `a b`"),
        (String::new(), "cannot understand the reference ``"),
    ] {
        let place = PullFixture::new();
        let error = place.pull(&reference).await.unwrap_err();
        let said = error_chain(&error);
        assert!(
            said.contains(why) && !said.contains('\n'),
            "{reference}: {said}"
        );
        place.assert_nothing_left();
    }
    fs::remove_file(server.blob_file(&Digest::of(&lost).to_string())).unwrap();
    let place = PullFixture::new();
    let error = place.pull(&server.reference("good:1")).await.unwrap_err();
    assert!(
        error_chain(&error).starts_with("cannot fetch"),
        "{}",
        error_chain(&error)
    );
    place.assert_nothing_left();
}

#[tokio::test]
async fn a_login_is_asked_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        // The authentication request and the request for the manifest.
        for stream in listener.incoming().take(2) {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            let answer =
                "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let place = PullFixture::new();
    let error = place.pull(&format!("{address}/x:1")).await.unwrap_err();
    assert!(
        matches!(error, ImageError::Login { .. }),
        "{}",
        error_chain(&error)
    );
    // If the client sent only one request, this connection ends the server's loop.
    let _ = std::net::TcpStream::connect(address);
    let _ = server.join();
}

#[test]
fn names_of_images_and_registries() {
    for (reference, name, registry) in [
        ("debian", "debian", "docker.io"),
        ("debian:bookworm", "debian:bookworm", "docker.io"),
        ("quay.io/team/tools:latest", "tools", "quay.io"),
        ("127.0.0.1:5000/a/b/c:1.2-x", "c:1.2-x", "127.0.0.1:5000"),
    ] {
        assert_eq!(default_image_name(reference).unwrap(), name);
        assert_eq!(registry_of(reference).unwrap(), registry);
    }
}
