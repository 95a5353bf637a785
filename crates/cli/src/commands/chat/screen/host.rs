//! Serves the requests of the UI and passes on what the agent sends. Never waits for one of them without
//! listening to the other. Entry type: [`Host`].

use protocol::{Event, SessionId};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tui::{Notice, Notices, Opened, Origin, Request};

use super::super::desk::{Desk, Start};
use super::super::errand;
use super::super::partner::{Heard, Partner, Remark};
use super::super::talk::Talk;
use super::answers;
use crate::complaint::{Complaint, HeldNotes};
use crate::settings::rules_file;

pub(super) struct Host<'a> {
    pub(super) desk: Desk<'a>,
    notices: Notices,
    requests: UnboundedReceiver<Request>,
    notes: &'a HeldNotes,
    pub(super) partner: Option<Partner>,
    pub(super) talk: Talk,
    /// Lookups in progress.
    errands: JoinSet<()>,
    /// Requests to a server in progress; not awaited at the end.
    calls: JoinSet<()>,
}

impl<'a> Host<'a> {
    pub(super) fn new(desk: Desk<'a>, ends: tui::Host, notes: &'a HeldNotes) -> Self {
        Self {
            desk,
            notices: ends.notices,
            requests: ends.requests,
            notes,
            partner: None,
            talk: Talk::default(),
            errands: JoinSet::new(),
            calls: JoinSet::new(),
        }
    }

    /// Runs until the UI has ended or is about to.
    pub(super) async fn serve(&mut self) {
        loop {
            tokio::select! {
                request = self.requests.recv() => match request {
                    None | Some(Request::Quit) => return,
                    Some(request) => self.obey(request).await,
                },
                heard = hear(&mut self.partner) => self.pass_on(heard).await,
                Some(_) = self.errands.join_next() => {}
                Some(_) = self.calls.join_next() => {}
            }
        }
    }

    /// Ends the session. Returns its id if anything was stored.
    pub(super) async fn leave(mut self) -> (Result<(), Complaint>, Option<SessionId>) {
        let ended = match self.partner.take() {
            Some(partner) => partner.end(async |_| {}).await,
            None => Ok(()),
        };
        while self.errands.join_next().await.is_some() {}
        let session = self.talk.session.filter(|_| self.talk.has_worked);
        (ended, session)
    }

    pub(super) async fn switch(&mut self, start: Start) {
        self.end_talk().await;
        self.open(start).await;
    }

    /// Shows everything that is sent until the end.
    pub(super) async fn end_talk(&mut self) {
        let Some(partner) = self.partner.take() else {
            return;
        };
        let notices = self.notices.clone();
        let ended = partner.end(async |heard| {
            if let Heard::Event(event) = heard {
                notices.send(Notice::Event(event)).await;
            }
        });
        if let Err(complaint) = ended.await {
            self.say(answers::failed(complaint)).await;
        }
    }

    pub(super) async fn open(&mut self, start: Start) {
        self.talk = Talk::of(&start);
        let opened = Opened {
            origin: Origin::Here {
                session: self.talk.is_stored.then_some(start.session),
            },
            history: start.history,
            model: start.model,
            workspace: start.workspace.display().to_string(),
        };
        self.say(Notice::Opened(Box::new(opened))).await;
        self.partner = Some(Partner::agent(start.setup));
        self.pass_notes().await;
    }

    async fn pass_on(&mut self, heard: Heard) {
        let notice = match heard {
            Heard::Event(event) => {
                self.learn(&event);
                Notice::Event(event)
            }
            Heard::Remark(Remark::Said(text)) => Notice::Said(text),
            Heard::Remark(Remark::Failed { what, hint }) => Notice::Failed { what, hint },
            Heard::Remark(Remark::Rests) => return,
            Heard::Ended(ended) => {
                self.partner = None;
                let complaint = match ended {
                    Err(complaint) => complaint,
                    Ok(()) => Complaint::new(1, "the session ended early"),
                };
                let (what, hint) = complaint.into_parts();
                Notice::Lost { what, hint }
            }
        };
        self.say(notice).await;
    }

    /// Updates the program's own state.
    fn learn(&mut self, event: &Event) {
        let rule = self.talk.learn(event);
        self.desk.use_model(self.talk.chosen_model.as_deref());
        if let Some(rule) = rule {
            let flags = &self.desk.chat.store;
            let kept = errand::keep(rules_file(flags), self.talk.workspace.clone(), rule);
            self.look_up(async { Ok(Notice::Said(kept.await?)) });
        }
    }

    /// Starts a lookup; the result goes to the UI.
    pub(super) fn look_up<F>(&mut self, work: F)
    where
        F: Future<Output = Result<Notice, Complaint>> + Send + 'static,
    {
        self.errands.spawn(answer(self.notices.clone(), work));
    }

    /// The same, for a request to a server.
    pub(super) fn call<F>(&mut self, work: F)
    where
        F: Future<Output = Result<Notice, Complaint>> + Send + 'static,
    {
        self.calls.spawn(answer(self.notices.clone(), work));
    }

    /// Passes on notes that would have been printed on the terminal.
    pub(super) async fn pass_notes(&self) {
        for note in self.notes.take() {
            self.say(answers::note(&note)).await;
        }
    }

    pub(super) async fn say(&self, notice: Notice) {
        // A UI that has ended does not receive it; the next request reports that.
        self.notices.send(notice).await;
    }
}

/// Never resolves when there is no partner.
async fn hear(partner: &mut Option<Partner>) -> Heard {
    match partner {
        Some(partner) => partner.hear().await,
        None => std::future::pending().await,
    }
}

async fn answer(notices: Notices, work: impl Future<Output = Result<Notice, Complaint>>) {
    let notice = work.await.unwrap_or_else(answers::failed);
    notices.send(notice).await;
}
