//! The UI without an agent: prompts are echoed. For trying it out, and for the tests of the event
//! loop, which run it in a pseudo terminal.
//!
//! Some prompts do more: `panic`, `flood`, `ask`. The exit code says why it ended.

use std::process::ExitCode;

use jiff::Timestamp;
use protocol::{AgentCommand, Block, Event, EventKind, Question, SessionId, Subject};
use tui::{ColourScheme, HostPort, NoticeSender, TuiExit, TuiSettings, UiNotice, UiRequest};

const TERMINAL_CLOSED_EXIT_CODE: u8 = 3;
const FAILED_EXIT_CODE: u8 = 4;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let settings = TuiSettings {
        look: ColourScheme::Dark,
        asks_look: true,
        editor: arguments.next(),
        is_in_tmux: false,
    };
    let Ok((host, port)) = tui::channel() else {
        return ExitCode::from(FAILED_EXIT_CODE);
    };
    std::thread::spawn(|| serve(host));
    let code = match tui::run(&settings, port) {
        Ok(TuiExit::Left) => 0,
        Ok(TuiExit::Signal(signal)) => u8::try_from(128 + signal).unwrap_or(FAILED_EXIT_CODE),
        Ok(TuiExit::Gone) => TERMINAL_CLOSED_EXIT_CODE,
        Err(_) => FAILED_EXIT_CODE,
    };
    ExitCode::from(code)
}

fn serve(mut host: HostPort) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else {
        return;
    };
    runtime.block_on(async {
        while let Some(request) = host.requests.recv().await {
            match request {
                UiRequest::Agent(AgentCommand::Prompt { content }) => {
                    answer(&host.notices, &text(&content)).await;
                }
                UiRequest::Agent(AgentCommand::Decide { question, decision }) => {
                    let answer = if decision.is_allowed { "yes" } else { "no" };
                    send_info(
                        &host.notices,
                        &format!("the answer to {question} is {answer}"),
                    )
                    .await;
                }
                UiRequest::Quit => break,
                _ => {}
            }
        }
    });
}

async fn answer(notices: &NoticeSender, text: &str) {
    match text {
        "panic" => panic!("as it was told to"),
        // Endless: the user must still be able to end it.
        "flood" => {
            for number in 0.. {
                if !send_info(notices, &format!("drop {number}")).await {
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
                v: protocol::EVENT_VERSION,
                session: SessionId::new(&time.to_zoned(jiff::tz::TimeZone::UTC).datetime(), 0),
                seq: None,
                time,
                kind: EventKind::Asked { question },
            };
            notices.send(UiNotice::Event(event)).await;
        }
        _ if text.len() > 100 => {
            send_info(notices, &format!("heard {} bytes", text.len())).await;
        }
        _ => {
            send_info(notices, &format!("heard <{text}>")).await;
        }
    }
}

async fn send_info(notices: &NoticeSender, text: &str) -> bool {
    notices.send(UiNotice::Said(text.to_owned())).await
}

fn text(content: &[Block]) -> String {
    let texts = content.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}
