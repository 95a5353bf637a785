//! The host's end of a machine's control channel. The machine is not trusted, since it may be
//! compromised: every answer is bounded in length, and the caller bounds every wait.

use std::io;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use walls::machine::{MachineActivation, MachineReady};
use walls::plan::{
    self, LandlockStatus, SetupFailure, SupervisorReport, SupervisorRequest, WallsPlan,
};

/// A valid message is a step's name and some numbers.
const MAX_MESSAGE_BYTES: u32 = 64 * 1024;

/// How long a machine may take to answer a request. After that it is killed.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct MachineControl(UnixStream);

/// Why a machine did not follow a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    #[error("cannot talk to the machine")]
    Channel(#[from] io::Error),
    #[error("the machine is not ready")]
    Failed(#[from] SetupFailure),
    #[error("the machine sent an unexpected answer")]
    Confused,
}

impl MachineControl {
    pub(crate) fn new(channel: UnixStream) -> Self {
        Self(channel)
    }

    /// Makes a booting machine set up walls like the ones that it will need.
    pub(crate) async fn expect(&mut self, plan: &WallsPlan) -> Result<(), ControlError> {
        Ok(self.send(plan).await?)
    }

    /// Waits until the machine has booted and waits.
    pub(crate) async fn awake(&mut self) -> Result<(), ControlError> {
        let awake: MachineReady = self.receive().await?;
        Ok(awake?)
    }

    /// Assigns a sandbox to the machine, and waits until its walls are up.
    pub(crate) async fn arrive(
        &mut self,
        arrival: &MachineActivation,
    ) -> Result<Option<LandlockStatus>, ControlError> {
        self.send(arrival).await?;
        match self.receive().await? {
            SupervisorReport::Ready { landlock } => Ok(landlock),
            SupervisorReport::Failed(failure) => Err(failure.into()),
            _ => Err(ControlError::Confused),
        }
    }

    /// The number of processes that the machine's kernel killed for lack of memory; 0 if it does
    /// not answer.
    pub(crate) async fn kills(&mut self) -> u64 {
        let ask = async {
            self.send(&SupervisorRequest::ReportOomKills).await?;
            self.receive().await
        };
        match tokio::time::timeout(ANSWER_TIMEOUT, ask).await {
            Ok(Ok(SupervisorReport::OomKills {
                out_of_memory_kills,
            })) => out_of_memory_kills,
            _ => 0,
        }
    }

    /// Ends everything inside, so that written data is flushed. Returns the final number of memory
    /// kills.
    pub(crate) async fn end(&mut self) -> u64 {
        let ask = async {
            // The machine may have ended already, and reported it.
            let _ = self.send(&SupervisorRequest::End).await;
            loop {
                if let SupervisorReport::Ended {
                    out_of_memory_kills,
                } = self.receive().await?
                {
                    return Ok::<u64, io::Error>(out_of_memory_kills);
                }
            }
        };
        match tokio::time::timeout(ANSWER_TIMEOUT, ask).await {
            Ok(Ok(kills)) => kills,
            _ => 0,
        }
    }

    async fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut framed = Vec::new();
        plan::send(&mut framed, message)?;
        self.0.write_all(&framed).await
    }

    async fn receive<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let length = self.0.read_u32_le().await?;
        if length > MAX_MESSAGE_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut framed = length.to_le_bytes().to_vec();
        framed.resize(4 + length as usize, 0);
        self.0.read_exact(&mut framed[4..]).await?;
        plan::receive(&framed[..])
    }
}
