//! Serves the requests of the UI and passes on what the agent sends. Never waits for one of them without
//! listening to the other. Entry type: [`UiHost`].

use protocol::{Event, SessionId};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tui::{NoticeSender, OpenedSession, SessionOrigin, UiNotice, UiRequest};

use super::super::chat_peer::{ChatPeer, PeerItem, PeerRemark};
use super::super::chat_state::ChatState;
use super::super::lookups;
use super::super::session_opener::{ReadySession, SessionOpener};
use super::answers;
use crate::cli_error::{CliError, HeldNotes};
use crate::settings::rules_file;

pub(super) struct UiHost<'a> {
    pub(super) desk: SessionOpener<'a>,
    notices: NoticeSender,
    requests: UnboundedReceiver<UiRequest>,
    notes: &'a HeldNotes,
    pub(super) partner: Option<ChatPeer>,
    pub(super) talk: ChatState,
    /// Lookups in progress.
    errands: JoinSet<()>,
    /// Requests to a server in progress; not awaited at the end.
    calls: JoinSet<()>,
}

impl<'a> UiHost<'a> {
    pub(super) fn new(desk: SessionOpener<'a>, ends: tui::HostPort, notes: &'a HeldNotes) -> Self {
        Self {
            desk,
            notices: ends.notices,
            requests: ends.requests,
            notes,
            partner: None,
            talk: ChatState::default(),
            errands: JoinSet::new(),
            calls: JoinSet::new(),
        }
    }

    /// Runs until the UI has ended or is about to.
    pub(super) async fn serve(&mut self) {
        loop {
            tokio::select! {
                request = self.requests.recv() => match request {
                    None | Some(UiRequest::Quit) => return,
                    Some(request) => self.obey(request).await,
                },
                heard = next_peer_item(&mut self.partner) => self.forward_item(heard).await,
                Some(_) = self.errands.join_next() => {}
                Some(_) = self.calls.join_next() => {}
            }
        }
    }

    /// Ends the session. Returns its id if anything was stored.
    pub(super) async fn leave(mut self) -> (Result<(), CliError>, Option<SessionId>) {
        let ended = match self.partner.take() {
            Some(partner) => partner.end(async |_| {}).await,
            None => Ok(()),
        };
        while self.errands.join_next().await.is_some() {}
        let session = self.talk.session.filter(|_| self.talk.has_worked);
        (ended, session)
    }

    pub(super) async fn switch(&mut self, start: ReadySession) {
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
            if let PeerItem::Event(event) = heard {
                notices.send(UiNotice::Event(event)).await;
            }
        });
        if let Err(complaint) = ended.await {
            self.say(answers::error_notice(complaint)).await;
        }
    }

    pub(super) async fn open(&mut self, start: ReadySession) {
        self.talk = ChatState::of(&start);
        let opened = OpenedSession {
            origin: SessionOrigin::Here {
                session: self.talk.is_stored.then_some(start.session),
            },
            history: start.history,
            model: start.model,
            workspace: start.workspace.display().to_string(),
        };
        self.say(UiNotice::Opened(Box::new(opened))).await;
        self.partner = Some(ChatPeer::agent(start.setup));
        self.forward_notes().await;
    }

    async fn forward_item(&mut self, heard: PeerItem) {
        let notice = match heard {
            PeerItem::Event(event) => {
                self.learn(&event);
                UiNotice::Event(event)
            }
            PeerItem::Remark(PeerRemark::Said(text)) => UiNotice::Said(text),
            PeerItem::Remark(PeerRemark::Failed { what, hint }) => UiNotice::Failed { what, hint },
            PeerItem::Remark(PeerRemark::Rests) => return,
            PeerItem::Ended(ended) => {
                self.partner = None;
                let complaint = match ended {
                    Err(complaint) => complaint,
                    Ok(()) => CliError::new(1, "the session ended early"),
                };
                let (what, hint) = complaint.into_parts();
                UiNotice::Lost { what, hint }
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
            let kept = lookups::keep(rules_file(flags), self.talk.workspace.clone(), rule);
            self.spawn_lookup(async { Ok(UiNotice::Said(kept.await?)) });
        }
    }

    /// Starts a lookup; the result goes to the UI.
    pub(super) fn spawn_lookup<F>(&mut self, work: F)
    where
        F: Future<Output = Result<UiNotice, CliError>> + Send + 'static,
    {
        self.errands.spawn(send_result(self.notices.clone(), work));
    }

    /// The same, for a request to a server.
    pub(super) fn call<F>(&mut self, work: F)
    where
        F: Future<Output = Result<UiNotice, CliError>> + Send + 'static,
    {
        self.calls.spawn(send_result(self.notices.clone(), work));
    }

    /// Passes on notes that would have been printed on the terminal.
    pub(super) async fn forward_notes(&self) {
        for note in self.notes.take() {
            self.say(answers::note_notice(&note)).await;
        }
    }

    pub(super) async fn say(&self, notice: UiNotice) {
        // A UI that has ended does not receive it; the next request reports that.
        self.notices.send(notice).await;
    }
}

/// Never resolves when there is no partner.
async fn next_peer_item(partner: &mut Option<ChatPeer>) -> PeerItem {
    match partner {
        Some(partner) => partner.hear().await,
        None => std::future::pending().await,
    }
}

async fn send_result(
    notices: NoticeSender,
    work: impl Future<Output = Result<UiNotice, CliError>>,
) {
    let notice = work.await.unwrap_or_else(answers::error_notice);
    notices.send(notice).await;
}
