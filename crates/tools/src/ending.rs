//! Describes how a command ended and which limit or isolation rule was the cause.

use sandbox::request::{CommandStatus, Exit, GuestLimit};
use sandbox::{LimitKind, Network, Sandbox};

/// Messages of programs that could not reach a host.
const UNREACHABLE_PHRASES: [&str; 6] = [
    "Could not resolve",
    "Couldn't resolve",
    "Temporary failure in name resolution",
    "Name or service not known",
    "Network is unreachable",
    "ENOTFOUND",
];

/// Messages of programs whose connection the proxy refused.
const PROXY_REFUSAL_PHRASES: [&str; 2] = ["CONNECT tunnel failed, response 403", "hotcell: denied"];

const READ_ONLY_PHRASE: &str = "Read-only file system";

/// The limit that ended a command, if any. `memory_kills` is the number of kernel OOM kills during
/// the command, counted by the caller.
pub(crate) fn exceeded_limit(exit: &Exit, memory_kills: u64) -> Option<LimitKind> {
    match exit.limit {
        Some(GuestLimit::Time) => Some(LimitKind::WallTime),
        Some(GuestLimit::Output) => Some(LimitKind::Output),
        Some(GuestLimit::Disk) => Some(LimitKind::Disk),
        Some(GuestLimit::Memory) => Some(LimitKind::Memory),
        None if exit.status != CommandStatus::Code(0) && memory_kills > 0 => {
            Some(LimitKind::Memory)
        }
        None => None,
    }
}

/// A short description of how a background command ended.
pub fn describe_background_exit(exit: &Exit, sandbox: &Sandbox) -> String {
    describe(exit, exceeded_limit(exit, 0), sandbox)
}

/// `exit code: 0` or `killed by signal 9 (SIGKILL)`, and the limit with its value.
pub(crate) fn describe(exit: &Exit, limit: Option<LimitKind>, sandbox: &Sandbox) -> String {
    let ended = match exit.status {
        CommandStatus::Code(code) => format!("exit code: {code}"),
        CommandStatus::Signal(_) => describe_status(exit.status),
    };
    let Some(limit) = limit else {
        return ended;
    };
    let value = sandbox.limits().iter().find(|one| one.limit == limit);
    let value = value.map_or(String::new(), |one| format!(" of {}", one.value));
    format!(
        "{ended}: the sandbox's {} limit{value} was reached",
        limit.name()
    )
}

/// `exit code 1` or `killed by signal 9 (SIGKILL)`, for the user.
pub(crate) fn describe_status(status: CommandStatus) -> String {
    match status {
        CommandStatus::Code(code) => format!("exit code {code}"),
        CommandStatus::Signal(signal) => match signal_name(signal) {
            Some(name) => format!("killed by signal {signal} ({name})"),
            None => format!("killed by signal {signal}"),
        },
    }
}

/// A note if the output suggests that the sandbox's isolation caused the failure.
pub(crate) fn isolation_note(printed: &str, network: &Network) -> Option<String> {
    let mentions = |phrases: &[&str]| phrases.iter().any(|phrase| printed.contains(phrase));
    match network {
        Network::Off if mentions(&UNREACHABLE_PHRASES) => {
            Some("[the network of this sandbox is off: only loopback can be reached]".to_owned())
        }
        network if network.asks() && mentions(&PROXY_REFUSAL_PHRASES) => Some(
            "[the user did not allow that host for this sandbox: do not try another way]"
                .to_owned(),
        ),
        Network::Allow(_) | Network::Gated(_)
            if mentions(&UNREACHABLE_PHRASES) || mentions(&PROXY_REFUSAL_PHRASES) =>
        {
            Some(
                "[this sandbox reaches only the hosts that it is allowed to, through its proxy]"
                    .to_owned(),
            )
        }
        _ if mentions(&[READ_ONLY_PHRASE]) => {
            Some("[outside /workspace and /tmp this sandbox is read-only]".to_owned())
        }
        _ => None,
    }
}

fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return None,
    })
}
