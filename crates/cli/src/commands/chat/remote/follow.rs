//! Follows a job: its events are passed on as if the agent ran here, and commands go to the server.
//!
//! A lost connection is reopened, from the last event received. Leaving a job does not end it.

use std::time::Duration;

use jiff::Timestamp;
use llm::sse::SseDecoder;
use protocol::{AgentCommand, Block, EVENT_VERSION, Event, EventKind};
use reqwest::{Method, Response};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::api::ServerClient;
use super::job::{JobChanges, JobFileList, RemoteJob};
use crate::cli_error::{CliError, USAGE_ERROR};
use crate::commands::chat::chat_peer::{PeerChannels, PeerRemark};

/// Timeout between two messages. The server sends a heartbeat every 15 seconds.
const STREAM_TIMEOUT: Duration = Duration::from_secs(45);

const MIN_RECONNECT_DELAY: Duration = Duration::from_millis(500);
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(30);

impl ServerClient {
    /// Runs until the chat ends. The job continues without it.
    pub(crate) async fn follow(self, job: RemoteJob, ends: PeerChannels) -> Result<(), CliError> {
        let mut follower = RemoteJobFollower {
            server: self,
            job,
            commands: ends.commands,
            events: ends.events,
            remarks: ends.remarks,
            last_event: 0,
            last_turn: 0,
            is_resting: false,
        };
        follower.report_job(&follower.job).await;
        let mut wait = MIN_RECONNECT_DELAY;
        loop {
            let broken = match follower.connect().await {
                Ok(stream) => {
                    if wait > MIN_RECONNECT_DELAY {
                        follower.report("reconnected").await;
                    }
                    wait = MIN_RECONNECT_DELAY;
                    match follower.read(stream).await {
                        StreamEnd::Left => return Ok(()),
                        StreamEnd::Over => {
                            if follower.wait_for_message().await {
                                continue;
                            } else {
                                return Ok(());
                            }
                        }
                        StreamEnd::Broken(why) => why,
                    }
                }
                Err(complaint) if complaint.code() == USAGE_ERROR => return Err(complaint),
                Err(complaint) => complaint.into_line(),
            };
            let seconds = wait.as_secs_f64();
            let text = format!("the connection is lost ({broken}); trying again in {seconds} s");
            follower.report(&text).await;
            if !follower.pause(wait).await {
                return Ok(());
            }
            wait = (wait * 2).min(MAX_RECONNECT_DELAY);
        }
    }
}

struct RemoteJobFollower {
    server: ServerClient,
    job: RemoteJob,
    commands: mpsc::Receiver<AgentCommand>,
    events: mpsc::Sender<Event>,
    remarks: mpsc::Sender<PeerRemark>,
    /// The last lasting event that was passed on.
    last_event: u64,
    /// The last turn that has ended.
    last_turn: u32,
    is_resting: bool,
}

/// How reading ended.
enum StreamEnd {
    /// The chat has ended.
    Left,
    /// The job has ended.
    Over,
    Broken(String),
}

impl RemoteJobFollower {
    async fn connect(&self) -> Result<Response, CliError> {
        let path = format!("/v1/jobs/{}/events?after={}", self.job.id, self.last_event);
        self.server.send(Method::GET, &path, None).await
    }

    async fn read(&mut self, mut stream: Response) -> StreamEnd {
        let mut decoder = SseDecoder::default();
        loop {
            tokio::select! {
                command = self.commands.recv() => match command {
                    Some(command) => self.handle_command(command).await,
                    None => return StreamEnd::Left,
                },
                chunk = timeout(STREAM_TIMEOUT, stream.chunk()) => match chunk {
                    Err(_) => return StreamEnd::Broken("it timed out".to_owned()),
                    Ok(Err(_)) | Ok(Ok(None)) => return StreamEnd::Broken("it was closed".to_owned()),
                    Ok(Ok(Some(chunk))) => decoder.push(&chunk),
                },
            }
            loop {
                match decoder.next_event() {
                    Ok(Some(sent)) if sent.name == "end" => {
                        self.rest().await;
                        return StreamEnd::Over;
                    }
                    Ok(Some(sent)) => self.take(&sent.name, &sent.data).await,
                    Ok(None) => break,
                    Err(bad) => return StreamEnd::Broken(bad.to_string()),
                }
            }
        }
    }

    async fn take(&mut self, name: &str, data: &str) {
        match name {
            "job" => {
                // A newer server may describe jobs in an unknown format.
                if let Ok(job) = serde_json::from_str::<RemoteJob>(data) {
                    if job.state != self.job.state || job.failure != self.job.failure {
                        self.report_job(&job).await;
                    }
                    self.job = job;
                }
            }
            "agent" => {
                if let Ok(event) = serde_json::from_str::<Event>(data) {
                    self.forward_event(event).await;
                }
            }
            _ => {}
        }
        if self.job.state == "waiting" && self.last_turn >= self.job.messages {
            self.rest().await;
        }
    }

    async fn forward_event(&mut self, event: Event) {
        self.is_resting = false;
        if let Some(seq) = event.seq {
            self.last_event = seq;
        }
        if let EventKind::TurnEnded { turn, .. } = event.kind {
            self.last_turn = turn;
        }
        let _ = self.events.send(event).await;
    }

    /// Reports once that no work is in progress.
    async fn rest(&mut self) {
        if !std::mem::replace(&mut self.is_resting, true) {
            let _ = self.remarks.send(PeerRemark::Rests).await;
        }
    }

    /// Reports the state of the job.
    async fn report_job(&self, job: &RemoteJob) {
        let what = job.described();
        let remark = match job.failure {
            Some(_) => PeerRemark::Failed { what, hint: None },
            None => PeerRemark::Said(what),
        };
        let _ = self.remarks.send(remark).await;
    }

    async fn report(&self, text: &str) {
        let _ = self.remarks.send(PeerRemark::Said(text.to_owned())).await;
    }

    /// Waits for a message to a job that has ended; false when the chat ends.
    async fn wait_for_message(&mut self) -> bool {
        while let Some(command) = self.commands.recv().await {
            self.handle_command(command).await;
            if !self.job.has_ended() {
                return true;
            }
        }
        false
    }

    /// False when the chat ends.
    async fn pause(&mut self, wait: Duration) -> bool {
        let mut over = std::pin::pin!(sleep(wait));
        loop {
            tokio::select! {
                () = &mut over => return true,
                command = self.commands.recv() => match command {
                    Some(command) => self.handle_command(command).await,
                    None => return false,
                },
            }
        }
    }

    async fn handle_command(&mut self, command: AgentCommand) {
        let id = self.job.id;
        let done = match command {
            AgentCommand::Prompt { content } => self.prompt(&content).await,
            AgentCommand::Interrupt => self.server.interrupt(id).await.map(|job| self.job = job),
            AgentCommand::ListFiles => {
                let path = format!("/v1/jobs/{id}/files");
                let folder = self.server.get::<JobFileList>(&path).await;
                self.tell(folder.map(EventKind::from)).await
            }
            AgentCommand::Diff => {
                let path = format!("/v1/jobs/{id}/diff");
                let changes = self.server.get::<JobChanges>(&path).await;
                self.tell(changes.map(EventKind::from)).await
            }
            _ => self.refuse().await,
        };
        if let Err(complaint) = done {
            let _ = self.remarks.send(PeerRemark::failed(complaint)).await;
        }
    }

    async fn prompt(&mut self, content: &[Block]) -> Result<(), CliError> {
        let texts: Vec<&str> = content.iter().filter_map(Block::as_text).collect();
        if texts.len() < content.len() {
            return Err(CliError::usage("a server's job takes no pictures"));
        }
        self.job = self.server.say(self.job.id, &texts.join("\n\n")).await?;
        self.is_resting = false;
        Ok(())
    }

    async fn refuse(&mut self) -> Result<(), CliError> {
        let reason = "a server's job cannot do that".to_owned();
        match self.job.session {
            Some(_) => self.tell(Ok(EventKind::CommandRefused { reason })).await,
            None => Err(CliError::usage(reason)),
        }
    }

    /// Sends an event on behalf of the agent.
    async fn tell(&mut self, kind: Result<EventKind, CliError>) -> Result<(), CliError> {
        let kind = kind?;
        let Some(session) = self.job.session.clone() else {
            return Err(CliError::usage("the job has not started yet"));
        };
        let event = Event {
            v: EVENT_VERSION,
            session,
            seq: None,
            time: Timestamp::now(),
            kind,
        };
        let _ = self.events.send(event).await;
        Ok(())
    }
}
