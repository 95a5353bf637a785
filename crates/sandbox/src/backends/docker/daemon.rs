//! The Docker daemon behind its socket: the few requests that are needed, with its errors
//! converted. Entry point: [`DockerDaemon::find`].

use std::os::unix::fs::lchown;
use std::path::Path;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, ListContainersOptionsBuilder, RemoveContainerOptionsBuilder,
    StartContainerOptions, WaitContainerOptionsBuilder,
};
use futures_util::StreamExt;
use tokio::time::timeout;

use super::super::container::{EngineError, failed};
use super::BACKEND;
use crate::backend_config::BackendConfig;
use crate::error::SandboxError;

/// A daemon that answered.
#[derive(Debug, Clone)]
pub(super) struct DockerDaemon {
    docker: Docker,
    version: String,
}

impl DockerDaemon {
    pub(super) async fn find(provisions: &BackendConfig) -> Result<Self, SandboxError> {
        const REQUEST_TIMEOUT_SECS: u64 = 120;
        let socket = &provisions.containers.docker_socket;
        let unavailable = |error: Error| unavailable(socket, &error);
        let path = socket.to_string_lossy();
        let docker =
            Docker::connect_with_socket(&path, REQUEST_TIMEOUT_SECS, bollard::API_DEFAULT_VERSION)
                .map_err(unavailable)?;
        let docker = docker.negotiate_version().await.map_err(unavailable)?;
        let version = docker.version().await.map_err(unavailable)?;
        Ok(Self {
            docker,
            version: version.version.unwrap_or_default(),
        })
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    pub(super) fn docker(&self) -> &Docker {
        &self.docker
    }

    /// Creates a container; `false` if its image is missing.
    pub(super) async fn create(
        &self,
        name: &str,
        body: ContainerCreateBody,
    ) -> Result<bool, SandboxError> {
        let options = CreateContainerOptionsBuilder::default().name(name).build();
        match self.docker.create_container(Some(options), body).await {
            Ok(_) => Ok(true),
            Err(Error::DockerResponseServerError {
                status_code: 404, ..
            }) => Ok(false),
            Err(error) => Err(refused("make a container", &error)),
        }
    }

    pub(super) async fn start(&self, name: &str) -> Result<(), SandboxError> {
        let started = self
            .docker
            .start_container(name, None::<StartContainerOptions>);
        started
            .await
            .map_err(|error| refused("start a container", &error))
    }

    /// Makes a user the owner of the root folder of a container that is not started yet, so that
    /// the user can create files there: this is the one folder whose owner Docker does not keep. If
    /// its layers are not folders that this user may change, the root folder keeps its owner.
    pub(super) async fn chown_root(&self, name: &str, user: u32) {
        let found = self.docker.inspect_container(name, None).await;
        let driver = found.ok().and_then(|found| found.graph_driver);
        let layer = driver.and_then(|driver| driver.data.get("UpperDir").cloned());
        let owned = layer.map(|layer| lchown(layer, Some(user), Some(user)));
        if !matches!(owned, Some(Ok(()))) {
            tracing::debug!(?owned, "root folder not owned");
        }
    }

    /// Waits until a container has been removed, which happens when it ends.
    pub(super) async fn gone(&self, name: &str) {
        // The daemon loses a wait request that arrives while the container is being removed, so it
        // would never return. A later request is answered with an error, so it is repeated.
        const RETRY_INTERVAL: Duration = Duration::from_millis(500);
        while timeout(RETRY_INTERVAL, self.wait_for_removal(name))
            .await
            .is_err()
        {}
    }

    async fn wait_for_removal(&self, name: &str) {
        let options = WaitContainerOptionsBuilder::default()
            .condition("removed")
            .build();
        let mut ended = std::pin::pin!(self.docker.wait_container(name, Some(options)));
        // Any answer means that it is gone, including the one that there is no such container.
        while ended.next().await.is_some() {}
    }

    /// Names of all sandbox containers, of any owner.
    pub(super) async fn sandbox_names(&self) -> Vec<String> {
        let filters = [("label".to_owned(), vec!["hotcell.owner".to_owned()])];
        let options = ListContainersOptionsBuilder::default()
            .all(true)
            .filters(&filters.into())
            .build();
        let listed = self.docker.list_containers(Some(options)).await;
        let names = listed.unwrap_or_default().into_iter();
        names
            .filter_map(|one| one.labels?.get("hotcell.sandbox").cloned())
            .collect()
    }

    /// Kills and removes a container. Ignores one that is gone already.
    pub(super) async fn remove(&self, name: &str) {
        let options = RemoveContainerOptionsBuilder::default().force(true).build();
        if let Err(error) = self.docker.remove_container(name, Some(options)).await {
            tracing::debug!(%error, "container not removed");
        }
    }
}

fn unavailable(socket: &Path, error: &Error) -> SandboxError {
    let reason = match (socket.exists(), error_message(error)) {
        (false, _) => format!("there is no socket `{}`", socket.display()),
        (true, words) => format!(
            "the daemon at `{}` does not answer: {words}",
            socket.display()
        ),
    };
    SandboxError::Unavailable {
        backend: BACKEND,
        reason,
        advice: Some(if socket.exists() {
            "start its daemon, or join the group that the socket belongs to".into()
        } else {
            "`apt install docker.io`, and start its daemon".into()
        }),
    }
}

pub(super) fn refused(doing: &str, error: &Error) -> SandboxError {
    failed(BACKEND, doing, EngineError::new(&error_message(error)))
}

/// The daemon's message if there is one, else the innermost cause.
fn error_message(error: &Error) -> String {
    if let Error::DockerResponseServerError { message, .. } = error {
        return message.clone();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
    use tokio::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn a_daemon_that_forgets_who_waits_is_asked_again() {
        let scene = tempfile::tempdir().unwrap();
        let socket = scene.path().join("docker.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let serving = tokio::spawn(async move {
            let ask = async || {
                let mut stream = BufStream::new(listener.accept().await.unwrap().0);
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    assert_ne!(stream.read_line(&mut head).await.unwrap(), 0);
                }
                assert!(head.contains("/containers/one/wait?"), "{head}");
                stream
            };
            // Stays open without an answer.
            let _forgotten = ask().await;
            let mut told = ask().await;
            let answer = "HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}";
            told.write_all(answer.as_bytes()).await.unwrap();
            told.flush().await.unwrap();
        });
        let path = socket.to_str().unwrap();
        let docker = Docker::connect_with_socket(path, 120, bollard::API_DEFAULT_VERSION);
        let daemon = DockerDaemon {
            docker: docker.unwrap(),
            version: String::new(),
        };
        let gone = timeout(Duration::from_secs(60), daemon.gone("one"));
        gone.await.unwrap();
        serving.await.unwrap();
    }
}
