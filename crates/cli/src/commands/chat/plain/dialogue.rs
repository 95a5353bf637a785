//! The conversation in lines: sends commands, shows events, asks questions. Entry type: [`Dialogue`].

use std::io;
use std::sync::Arc;

use protocol::{AgentCommand, Event, EventKind};
use tokio::runtime::Runtime;

use super::awaited::AwaitedEvent;
use super::input::{InputItem, LineInput};
use super::lists;
use super::signals::{ChatSignal, SignalInbox};
use crate::cli_error::{CliError, USAGE_ERROR};
use crate::commands::chat::chat_peer::{ChatPeer, PeerItem, PeerRemark};
use crate::commands::chat::chat_state::ChatState;
use crate::commands::chat::lookups;
use crate::commands::chat::session_opener::{ReadySession, SessionOpener};
use crate::commands::run_command::{INTERRUPTED, outcome_code};
use crate::render::{TextView, clean};
use crate::settings::rules_file;

const BROKEN_PIPE: u8 = 141;

pub(super) struct Dialogue<'a> {
    pub(super) runtime: &'a Runtime,
    pub(super) desk: SessionOpener<'a>,
    pub(super) input: LineInput,
    attention: Arc<SignalInbox>,
    pub(super) view: TextView,
    pub(super) partner: Option<ChatPeer>,
    pub(super) talk: ChatState,
    /// Pictures that are sent with the next message.
    pub(super) pictures: Vec<protocol::Block>,
    /// Exit code of the last turn.
    code: u8,
}

/// Why the dialogue ends.
#[derive(Debug)]
pub(super) enum DialogueEnd {
    /// The user leaves, or the input has ended.
    Left,
    Signal(u8),
    /// The agent or the terminal is lost.
    Lost(CliError),
    /// The output was closed.
    Unread,
}

impl From<io::Error> for DialogueEnd {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Unread,
            _ => Self::Lost(CliError::new(1, format!("cannot read or write: {error}"))),
        }
    }
}

impl<'a> Dialogue<'a> {
    pub(super) fn new(
        runtime: &'a Runtime,
        desk: SessionOpener<'a>,
        input: LineInput,
        attention: Arc<SignalInbox>,
    ) -> Self {
        Self {
            runtime,
            desk,
            input,
            attention,
            view: TextView::new(),
            partner: None,
            talk: ChatState::default(),
            pictures: Vec::new(),
            code: 0,
        }
    }

    /// Continues with this session.
    pub(super) fn open(&mut self, start: ReadySession) {
        self.talk = ChatState::of(&start);
        if self.talk.is_stored {
            let _ = self.view.announce(&format!("session {}", start.session));
        }
        let _guard = self.runtime.enter();
        self.partner = Some(ChatPeer::agent(start.setup));
    }

    /// Runs until the dialogue ends.
    pub(super) fn serve(&mut self) -> DialogueEnd {
        if self.input.is_person() {
            let _ = self
                .view
                .announce("/help lists commands; Ctrl-D (end of input) exits");
        }
        let mut was_asked = false;
        loop {
            let ended = match self.input.next() {
                Ok(InputItem::Words(words)) => self.take(&words),
                Ok(InputItem::Wish(ChatSignal::Leave(code))) => Err(DialogueEnd::Signal(code)),
                Ok(InputItem::Wish(ChatSignal::Interrupt)) if !self.input.is_person() => {
                    Err(DialogueEnd::Signal(INTERRUPTED))
                }
                Ok(InputItem::Wish(ChatSignal::Interrupt)) if was_asked => Err(DialogueEnd::Left),
                Ok(InputItem::Wish(ChatSignal::Interrupt)) => {
                    let _ = self.view.announce("\npress Ctrl-C again to exit");
                    was_asked = true;
                    continue;
                }
                Ok(InputItem::End) => Err(DialogueEnd::Left),
                Ok(InputItem::Refused(why)) => {
                    self.complain(CliError::usage(why));
                    Ok(())
                }
                Err(error) => Err(error.into()),
            };
            was_asked = false;
            if let Err(end) = ended {
                return end;
            }
        }
    }

    /// Ends the session and returns the exit code.
    pub(super) fn end(mut self, end: DialogueEnd) -> Result<u8, CliError> {
        let view = &mut self.view;
        let ended = self.partner.take().map(|partner| {
            let show = async |heard| {
                if let PeerItem::Event(event) = heard {
                    let _ = view.show(&event);
                }
            };
            self.runtime.block_on(partner.end(show))
        });
        match end {
            DialogueEnd::Lost(complaint) => return Err(complaint),
            DialogueEnd::Unread => return Ok(BROKEN_PIPE),
            DialogueEnd::Signal(code) => return Ok(code),
            DialogueEnd::Left => ended.transpose()?,
        };
        // For an interactive user, the program itself has succeeded.
        Ok(if self.input.is_person() { 0 } else { self.code })
    }

    /// Shows an error; the dialogue continues.
    pub(super) fn complain(&mut self, complaint: CliError) {
        self.code = complaint.code();
        complaint.tell();
    }

    /// Sends a command and shows events until it is answered.
    pub(super) fn run_command(
        &mut self,
        command: AgentCommand,
        awaited: AwaitedEvent,
    ) -> Result<(), DialogueEnd> {
        let Some(partner) = &mut self.partner else {
            self.complain(CliError::usage("there is no session"));
            return Ok(());
        };
        self.talk.ask(&command);
        partner.tell(command);
        self.show_until(awaited)
    }

    /// Shows events until the awaited one.
    pub(super) fn show_until(&mut self, awaited: AwaitedEvent) -> Result<(), DialogueEnd> {
        let mut has_begun = false;
        let mut was_stopped = false;
        loop {
            match self.next() {
                Err(wish) => self.stop(wish, &mut was_stopped)?,
                Ok(PeerItem::Event(event)) => {
                    has_begun |= matches!(
                        event.kind,
                        EventKind::TurnStarted { .. } | EventKind::TurnContinued { .. }
                    );
                    self.handle_event(&event)?;
                    if awaited.is_completed_by(&event.kind) {
                        return Ok(());
                    }
                    // During a turn it belongs to something else, such as a late decision.
                    if let EventKind::CommandRefused { reason } = event.kind {
                        self.complain(CliError::usage(reason));
                        if !has_begun {
                            return Ok(());
                        }
                    }
                }
                Ok(PeerItem::Remark(PeerRemark::Said(text))) => {
                    self.view.announce(&clean(&text))?;
                }
                Ok(PeerItem::Remark(PeerRemark::Failed { what, hint })) => {
                    self.complain(CliError::new(USAGE_ERROR, what).hint(hint));
                    return Ok(());
                }
                Ok(PeerItem::Remark(PeerRemark::Rests)) if awaited == AwaitedEvent::Rest => {
                    return Ok(());
                }
                Ok(PeerItem::Remark(PeerRemark::Rests)) => {}
                Ok(PeerItem::Ended(ended)) => {
                    self.partner = None;
                    return Err(DialogueEnd::Lost(match ended {
                        Err(complaint) => complaint,
                        Ok(()) => CliError::new(1, "the session ended early"),
                    }));
                }
            }
        }
    }

    /// The next item, or a signal that comes first.
    fn next(&mut self) -> Result<PeerItem, ChatSignal> {
        let Some(partner) = &mut self.partner else {
            return Ok(PeerItem::Ended(Ok(())));
        };
        let attention = &self.attention;
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                wish = attention.wish() => Err(wish),
                heard = partner.hear() => Ok(heard),
            }
        })
    }

    /// Stops the current work; the second time, ends the dialogue.
    fn stop(&mut self, wish: ChatSignal, was_stopped: &mut bool) -> Result<(), DialogueEnd> {
        match wish {
            ChatSignal::Leave(code) => Err(DialogueEnd::Signal(code)),
            ChatSignal::Interrupt if *was_stopped => Err(DialogueEnd::Signal(INTERRUPTED)),
            ChatSignal::Interrupt => {
                *was_stopped = true;
                if let Some(partner) = &mut self.partner {
                    partner.tell(AgentCommand::Interrupt);
                }
                Ok(())
            }
        }
    }

    fn handle_event(&mut self, event: &Event) -> Result<(), DialogueEnd> {
        let rule = self.talk.learn(event);
        self.desk.use_model(self.talk.chosen_model.as_deref());
        self.view.show(event)?;
        match &event.kind {
            EventKind::TurnEnded { outcome, .. } => {
                self.code = outcome_code(outcome);
                self.view.finish()?;
            }
            EventKind::Asked { question } => self.ask(question)?,
            kind => lists::show(kind, &mut self.view)?,
        }
        if let Some(rule) = rule {
            let file = rules_file(&self.desk.chat.store);
            let kept = lookups::keep(file, self.talk.workspace.clone(), rule);
            match self.runtime.block_on(kept) {
                Ok(said) => self.view.announce(&said)?,
                Err(complaint) => self.complain(complaint),
            }
        }
        Ok(())
    }

    pub(super) fn tell(&mut self, command: AgentCommand) {
        if let Some(partner) = &mut self.partner {
            partner.tell(command);
        }
    }
}
