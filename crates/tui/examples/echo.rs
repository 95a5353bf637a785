//! The UI without an agent: prompts are echoed. For trying it out, and for the tests of the event
//! loop, which run it in a pseudo terminal.
//!
//! Some prompts do more: `panic`, `flood`, `ask`. The exit code says why it ended.

use std::process::ExitCode;

use jiff::Timestamp;
use protocol::{Block, Command, Event, EventKind, Question, SessionId, Subject};
use tui::{Ended, Host, Look, Notice, Notices, Request, Settings};

const GONE: u8 = 3;
const FAILED: u8 = 4;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let settings = Settings {
        look: Look::Dark,
        asks_look: true,
        editor: arguments.next(),
        is_in_tmux: false,
    };
    let Ok((host, port)) = tui::channel() else {
        return ExitCode::from(FAILED);
    };
    std::thread::spawn(|| serve(host));
    let code = match tui::run(&settings, port) {
        Ok(Ended::Left) => 0,
        Ok(Ended::Signal(signal)) => u8::try_from(128 + signal).unwrap_or(FAILED),
        Ok(Ended::Gone) => GONE,
        Err(_) => FAILED,
    };
    ExitCode::from(code)
}

fn serve(mut host: Host) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else {
        return;
    };
    runtime.block_on(async {
        while let Some(request) = host.requests.recv().await {
            match request {
                Request::Agent(Command::Prompt { content }) => {
                    answer(&host.notices, &text(&content)).await;
                }
                Request::Agent(Command::Decide { question, decision }) => {
                    let answer = if decision.is_allowed { "yes" } else { "no" };
                    say(
                        &host.notices,
                        &format!("the answer to {question} is {answer}"),
                    )
                    .await;
                }
                Request::Quit => break,
                _ => {}
            }
        }
    });
}

async fn answer(notices: &Notices, text: &str) {
    match text {
        "panic" => panic!("as it was told to"),
        // Endless: the user must still be able to end it.
        "flood" => {
            for number in 0.. {
                if !say(notices, &format!("drop {number}")).await {
                    return;
                }
            }
        }
        "ask" => {
            let question = Question {
                number: 7,
                what: "connect to example.com:443".to_owned(),
                why: "no rule says anything about it".to_owned(),
                subject: Subject::Host {
                    host: "example.com".to_owned(),
                },
            };
            let time = Timestamp::UNIX_EPOCH;
            let event = Event {
                v: protocol::VERSION,
                session: SessionId::new(&time.to_zoned(jiff::tz::TimeZone::UTC).datetime(), 0),
                seq: None,
                time,
                kind: EventKind::Asked { question },
            };
            notices.send(Notice::Event(event)).await;
        }
        _ if text.len() > 100 => {
            say(notices, &format!("heard {} bytes", text.len())).await;
        }
        _ => {
            say(notices, &format!("heard <{text}>")).await;
        }
    }
}

async fn say(notices: &Notices, text: &str) -> bool {
    notices.send(Notice::Said(text.to_owned())).await
}

fn text(content: &[Block]) -> String {
    let texts = content.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}
