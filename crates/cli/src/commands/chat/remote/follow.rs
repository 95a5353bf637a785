//! Follows a job: its events are passed on as if the agent ran here, and commands go to the server.
//!
//! A lost connection is reopened, from the last event received. Leaving a job does not end it.

use std::time::Duration;

use jiff::Timestamp;
use llm::sse::Decoder;
use protocol::{Block, Command, Event, EventKind, VERSION};
use reqwest::{Method, Response};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::api::Server;
use super::job::{Changes, Folder, RemoteJob};
use crate::commands::chat::partner::{Ends, Remark};
use crate::complaint::{Complaint, USAGE};

/// Timeout between two messages. The server sends a heartbeat every 15 seconds.
const SILENCE: Duration = Duration::from_secs(45);

const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

impl Server {
    /// Runs until the chat ends. The job continues without it.
    pub(crate) async fn follow(self, job: RemoteJob, ends: Ends) -> Result<(), Complaint> {
        let mut follower = Follower {
            server: self,
            job,
            commands: ends.commands,
            events: ends.events,
            remarks: ends.remarks,
            last_event: 0,
            last_turn: 0,
            is_resting: false,
        };
        follower.tell_of(&follower.job).await;
        let mut wait = FIRST_WAIT;
        loop {
            let broken = match follower.connect().await {
                Ok(stream) => {
                    if wait > FIRST_WAIT {
                        follower.say("reconnected").await;
                    }
                    wait = FIRST_WAIT;
                    match follower.read(stream).await {
                        Read::Left => return Ok(()),
                        Read::Over => {
                            if follower.wait_for_message().await {
                                continue;
                            } else {
                                return Ok(());
                            }
                        }
                        Read::Broken(why) => why,
                    }
                }
                Err(complaint) if complaint.code() == USAGE => return Err(complaint),
                Err(complaint) => complaint.into_line(),
            };
            let seconds = wait.as_secs_f64();
            let text = format!("the connection is lost ({broken}); trying again in {seconds} s");
            follower.say(&text).await;
            if !follower.pause(wait).await {
                return Ok(());
            }
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }
}

struct Follower {
    server: Server,
    job: RemoteJob,
    commands: mpsc::Receiver<Command>,
    events: mpsc::Sender<Event>,
    remarks: mpsc::Sender<Remark>,
    /// The last lasting event that was passed on.
    last_event: u64,
    /// The last turn that has ended.
    last_turn: u32,
    is_resting: bool,
}

/// How reading ended.
enum Read {
    /// The chat has ended.
    Left,
    /// The job has ended.
    Over,
    Broken(String),
}

impl Follower {
    async fn connect(&self) -> Result<Response, Complaint> {
        let path = format!("/v1/jobs/{}/events?after={}", self.job.id, self.last_event);
        self.server.send(Method::GET, &path, None).await
    }

    async fn read(&mut self, mut stream: Response) -> Read {
        let mut decoder = Decoder::default();
        loop {
            tokio::select! {
                command = self.commands.recv() => match command {
                    Some(command) => self.obey(command).await,
                    None => return Read::Left,
                },
                chunk = timeout(SILENCE, stream.chunk()) => match chunk {
                    Err(_) => return Read::Broken("it timed out".to_owned()),
                    Ok(Err(_)) | Ok(Ok(None)) => return Read::Broken("it was closed".to_owned()),
                    Ok(Ok(Some(chunk))) => decoder.push(&chunk),
                },
            }
            loop {
                match decoder.next_event() {
                    Ok(Some(sent)) if sent.name == "end" => {
                        self.rest().await;
                        return Read::Over;
                    }
                    Ok(Some(sent)) => self.take(&sent.name, &sent.data).await,
                    Ok(None) => break,
                    Err(bad) => return Read::Broken(bad.to_string()),
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
                        self.tell_of(&job).await;
                    }
                    self.job = job;
                }
            }
            "agent" => {
                if let Ok(event) = serde_json::from_str::<Event>(data) {
                    self.pass_on(event).await;
                }
            }
            _ => {}
        }
        if self.job.state == "waiting" && self.last_turn >= self.job.messages {
            self.rest().await;
        }
    }

    async fn pass_on(&mut self, event: Event) {
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
            let _ = self.remarks.send(Remark::Rests).await;
        }
    }

    /// Reports the state of the job.
    async fn tell_of(&self, job: &RemoteJob) {
        let what = job.described();
        let remark = match job.failure {
            Some(_) => Remark::Failed { what, hint: None },
            None => Remark::Said(what),
        };
        let _ = self.remarks.send(remark).await;
    }

    async fn say(&self, text: &str) {
        let _ = self.remarks.send(Remark::Said(text.to_owned())).await;
    }

    /// Waits for a message to a job that has ended; false when the chat ends.
    async fn wait_for_message(&mut self) -> bool {
        while let Some(command) = self.commands.recv().await {
            self.obey(command).await;
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
                    Some(command) => self.obey(command).await,
                    None => return false,
                },
            }
        }
    }

    async fn obey(&mut self, command: Command) {
        let id = self.job.id;
        let done = match command {
            Command::Prompt { content } => self.prompt(&content).await,
            Command::Interrupt => self.server.interrupt(id).await.map(|job| self.job = job),
            Command::ListFiles => {
                let path = format!("/v1/jobs/{id}/files");
                let folder = self.server.get::<Folder>(&path).await;
                self.tell(folder.map(EventKind::from)).await
            }
            Command::Diff => {
                let path = format!("/v1/jobs/{id}/diff");
                let changes = self.server.get::<Changes>(&path).await;
                self.tell(changes.map(EventKind::from)).await
            }
            _ => self.refuse().await,
        };
        if let Err(complaint) = done {
            let _ = self.remarks.send(Remark::failed(complaint)).await;
        }
    }

    async fn prompt(&mut self, content: &[Block]) -> Result<(), Complaint> {
        let texts: Vec<&str> = content.iter().filter_map(Block::as_text).collect();
        if texts.len() < content.len() {
            return Err(Complaint::usage("a server's job takes no pictures"));
        }
        self.job = self.server.say(self.job.id, &texts.join("\n\n")).await?;
        self.is_resting = false;
        Ok(())
    }

    async fn refuse(&mut self) -> Result<(), Complaint> {
        let reason = "a server's job cannot do that".to_owned();
        match self.job.session {
            Some(_) => self.tell(Ok(EventKind::CommandRefused { reason })).await,
            None => Err(Complaint::usage(reason)),
        }
    }

    /// Sends an event on behalf of the agent.
    async fn tell(&mut self, kind: Result<EventKind, Complaint>) -> Result<(), Complaint> {
        let kind = kind?;
        let Some(session) = self.job.session.clone() else {
            return Err(Complaint::usage("the job has not started yet"));
        };
        let event = Event {
            v: VERSION,
            session,
            seq: None,
            time: Timestamp::now(),
            kind,
        };
        let _ = self.events.send(event).await;
        Ok(())
    }
}
