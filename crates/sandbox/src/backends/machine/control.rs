//! The host's end of a machine's control channel. Believes nothing: the other end may be whatever
//! took the machine over, so every answer is short, and every wait is the caller's to bound.

use std::io;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use walls::machine::{Arrival, Awake};
use walls::plan::{self, Ask, Failure, Landlocked, Plan, Report};

/// A step's name and some numbers: more is not what a machine says.
const LONGEST: u32 = 64 * 1024;

/// A machine that is asked to end has so long to say its last word. Past it, it is just ended.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Control(UnixStream);

/// Why a machine did not do as told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    #[error("cannot talk to the machine")]
    Channel(#[from] io::Error),
    #[error("the machine is not ready")]
    Failed(#[from] Failure),
    #[error("the machine gave an answer to another question")]
    Confused,
}

impl Control {
    pub(crate) fn new(channel: UnixStream) -> Self {
        Self(channel)
    }

    /// Has a machine that boots put up walls like those that it will need.
    pub(crate) async fn expect(&mut self, plan: &Plan) -> Result<(), ControlError> {
        Ok(self.send(plan).await?)
    }

    /// Waits until the machine has booted and waits.
    pub(crate) async fn awake(&mut self) -> Result<(), ControlError> {
        let awake: Awake = self.receive().await?;
        Ok(awake?)
    }

    /// Tells the machine what it is to be, and waits until its walls stand.
    pub(crate) async fn arrive(
        &mut self,
        arrival: &Arrival,
    ) -> Result<Option<Landlocked>, ControlError> {
        self.send(arrival).await?;
        match self.receive().await? {
            Report::Ready { landlock } => Ok(landlock),
            Report::Failed(failure) => Err(failure.into()),
            _ => Err(ControlError::Confused),
        }
    }

    /// How many processes the machine's kernel has killed for want of memory; none if it does not
    /// answer.
    pub(crate) async fn kills(&mut self) -> u64 {
        let ask = async {
            self.send(&Ask::Kills).await?;
            self.receive().await
        };
        match tokio::time::timeout(PATIENCE, ask).await {
            Ok(Ok(Report::Kills {
                out_of_memory_kills,
            })) => out_of_memory_kills,
            _ => 0,
        }
    }

    /// Has everything inside end, so that what it wrote is written; says the last count of kills.
    pub(crate) async fn end(&mut self) -> u64 {
        let ask = async {
            // It may have ended already, and said so.
            let _ = self.send(&Ask::End).await;
            loop {
                if let Report::Ended {
                    out_of_memory_kills,
                } = self.receive().await?
                {
                    return Ok::<u64, io::Error>(out_of_memory_kills);
                }
            }
        };
        match tokio::time::timeout(PATIENCE, ask).await {
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
        if length > LONGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut framed = length.to_le_bytes().to_vec();
        framed.resize(4 + length as usize, 0);
        self.0.read_exact(&mut framed[4..]).await?;
        plan::receive(&framed[..])
    }
}
