//! The conversation in lines: sends commands, shows events, asks questions. Entry type: [`Dialogue`].

use std::io;
use std::sync::Arc;

use protocol::{Command, Event, EventKind};
use tokio::runtime::Runtime;

use super::attention::{Attention, Wish};
use super::awaited::Awaited;
use super::input::{Input, Said};
use super::lists;
use crate::commands::chat::desk::{Desk, Start};
use crate::commands::chat::errand;
use crate::commands::chat::partner::{Heard, Partner, Remark};
use crate::commands::chat::talk::Talk;
use crate::commands::drive::{INTERRUPTED, code_of};
use crate::complaint::{Complaint, USAGE};
use crate::render::{TextView, clean};
use crate::settings::rules_file;

const BROKEN_PIPE: u8 = 141;

pub(super) struct Dialogue<'a> {
    pub(super) runtime: &'a Runtime,
    pub(super) desk: Desk<'a>,
    pub(super) input: Input,
    attention: Arc<Attention>,
    pub(super) view: TextView,
    pub(super) partner: Option<Partner>,
    pub(super) talk: Talk,
    /// Pictures that are sent with the next message.
    pub(super) pictures: Vec<protocol::Block>,
    /// Exit code of the last turn.
    code: u8,
}

/// Why the dialogue ends.
#[derive(Debug)]
pub(super) enum End {
    /// The user leaves, or the input has ended.
    Left,
    Signal(u8),
    /// The agent or the terminal is lost.
    Lost(Complaint),
    /// The output was closed.
    Unread,
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Unread,
            _ => Self::Lost(Complaint::new(1, format!("cannot read or write: {error}"))),
        }
    }
}

impl<'a> Dialogue<'a> {
    pub(super) fn new(
        runtime: &'a Runtime,
        desk: Desk<'a>,
        input: Input,
        attention: Arc<Attention>,
    ) -> Self {
        Self {
            runtime,
            desk,
            input,
            attention,
            view: TextView::new(),
            partner: None,
            talk: Talk::default(),
            pictures: Vec::new(),
            code: 0,
        }
    }

    /// Continues with this session.
    pub(super) fn open(&mut self, start: Start) {
        self.talk = Talk::of(&start);
        if self.talk.is_stored {
            let _ = self.view.announce(&format!("session {}", start.session));
        }
        let _guard = self.runtime.enter();
        self.partner = Some(Partner::agent(start.setup));
    }

    /// Runs until the dialogue ends.
    pub(super) fn serve(&mut self) -> End {
        if self.input.is_person() {
            let _ = self
                .view
                .announce("/help lists commands; Ctrl-D (end of input) exits");
        }
        let mut was_asked = false;
        loop {
            let ended = match self.input.next() {
                Ok(Said::Words(words)) => self.take(&words),
                Ok(Said::Wish(Wish::Leave(code))) => Err(End::Signal(code)),
                Ok(Said::Wish(Wish::Interrupt)) if !self.input.is_person() => {
                    Err(End::Signal(INTERRUPTED))
                }
                Ok(Said::Wish(Wish::Interrupt)) if was_asked => Err(End::Left),
                Ok(Said::Wish(Wish::Interrupt)) => {
                    let _ = self.view.announce("\npress Ctrl-C again to exit");
                    was_asked = true;
                    continue;
                }
                Ok(Said::End) => Err(End::Left),
                Ok(Said::Refused(why)) => {
                    self.complain(Complaint::usage(why));
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
    pub(super) fn end(mut self, end: End) -> Result<u8, Complaint> {
        let view = &mut self.view;
        let ended = self.partner.take().map(|partner| {
            let show = async |heard| {
                if let Heard::Event(event) = heard {
                    let _ = view.show(&event);
                }
            };
            self.runtime.block_on(partner.end(show))
        });
        match end {
            End::Lost(complaint) => return Err(complaint),
            End::Unread => return Ok(BROKEN_PIPE),
            End::Signal(code) => return Ok(code),
            End::Left => ended.transpose()?,
        };
        // For an interactive user, the program itself has succeeded.
        Ok(if self.input.is_person() { 0 } else { self.code })
    }

    /// Shows an error; the dialogue continues.
    pub(super) fn complain(&mut self, complaint: Complaint) {
        self.code = complaint.code();
        complaint.tell();
    }

    /// Sends a command and shows events until it is answered.
    pub(super) fn perform(&mut self, command: Command, awaited: Awaited) -> Result<(), End> {
        let Some(partner) = &mut self.partner else {
            self.complain(Complaint::usage("there is no session"));
            return Ok(());
        };
        self.talk.ask(&command);
        partner.tell(command);
        self.attend(awaited)
    }

    /// Shows events until the awaited one.
    pub(super) fn attend(&mut self, awaited: Awaited) -> Result<(), End> {
        let mut has_begun = false;
        let mut was_stopped = false;
        loop {
            match self.next() {
                Err(wish) => self.stop(wish, &mut was_stopped)?,
                Ok(Heard::Event(event)) => {
                    has_begun |= matches!(
                        event.kind,
                        EventKind::TurnStarted { .. } | EventKind::TurnContinued { .. }
                    );
                    self.hear(&event)?;
                    if awaited.is_answered_by(&event.kind) {
                        return Ok(());
                    }
                    // During a turn it belongs to something else, such as a late decision.
                    if let EventKind::CommandRefused { reason } = event.kind {
                        self.complain(Complaint::usage(reason));
                        if !has_begun {
                            return Ok(());
                        }
                    }
                }
                Ok(Heard::Remark(Remark::Said(text))) => {
                    self.view.announce(&clean(&text))?;
                }
                Ok(Heard::Remark(Remark::Failed { what, hint })) => {
                    self.complain(Complaint::new(USAGE, what).hint(hint));
                    return Ok(());
                }
                Ok(Heard::Remark(Remark::Rests)) if awaited == Awaited::Rest => {
                    return Ok(());
                }
                Ok(Heard::Remark(Remark::Rests)) => {}
                Ok(Heard::Ended(ended)) => {
                    self.partner = None;
                    return Err(End::Lost(match ended {
                        Err(complaint) => complaint,
                        Ok(()) => Complaint::new(1, "the session ended early"),
                    }));
                }
            }
        }
    }

    /// The next item, or a signal that comes first.
    fn next(&mut self) -> Result<Heard, Wish> {
        let Some(partner) = &mut self.partner else {
            return Ok(Heard::Ended(Ok(())));
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
    fn stop(&mut self, wish: Wish, was_stopped: &mut bool) -> Result<(), End> {
        match wish {
            Wish::Leave(code) => Err(End::Signal(code)),
            Wish::Interrupt if *was_stopped => Err(End::Signal(INTERRUPTED)),
            Wish::Interrupt => {
                *was_stopped = true;
                if let Some(partner) = &mut self.partner {
                    partner.tell(Command::Interrupt);
                }
                Ok(())
            }
        }
    }

    fn hear(&mut self, event: &Event) -> Result<(), End> {
        let rule = self.talk.learn(event);
        self.desk.use_model(self.talk.chosen_model.as_deref());
        self.view.show(event)?;
        match &event.kind {
            EventKind::TurnEnded { outcome, .. } => {
                self.code = code_of(outcome);
                self.view.finish()?;
            }
            EventKind::Asked { question } => self.ask(question)?,
            kind => lists::show(kind, &mut self.view)?,
        }
        if let Some(rule) = rule {
            let file = rules_file(&self.desk.chat.store);
            let kept = errand::keep(file, self.talk.workspace.clone(), rule);
            match self.runtime.block_on(kept) {
                Ok(said) => self.view.announce(&said)?,
                Err(complaint) => self.complain(complaint),
            }
        }
        Ok(())
    }

    pub(super) fn tell(&mut self, command: Command) {
        if let Some(partner) = &mut self.partner {
            partner.tell(command);
        }
    }
}
