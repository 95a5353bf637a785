//! Terminal keys and resizes that cause signals, for gVisor. There, opening a terminal does not make it the
//! controlling terminal, so the guest sends the signals that the kernel would send. Shells have no job
//! control then, so the foreground is always the command's own process group. Entry type: [`SignalKeys`].

use std::os::fd::BorrowedFd;

use nix::sys::signal::{Signal, killpg};
use nix::sys::termios::{LocalFlags, SpecialCharacterIndices, tcgetattr};
use nix::unistd::Pid;

/// The keys that currently cause signals on a terminal.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SignalKeys(Vec<(u8, Signal)>);

/// A part of typed input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TypedPart<'a> {
    Text(&'a [u8]),
    Signal(Signal),
}

impl SignalKeys {
    /// Reads the terminal's settings. Empty if `ISIG` is off.
    pub(crate) fn of(terminal: BorrowedFd<'_>) -> Self {
        let Ok(settings) = tcgetattr(terminal) else {
            return Self::default();
        };
        if !settings.local_flags.contains(LocalFlags::ISIG) {
            return Self::default();
        }
        let keys = [
            (SpecialCharacterIndices::VINTR, Signal::SIGINT),
            (SpecialCharacterIndices::VQUIT, Signal::SIGQUIT),
            (SpecialCharacterIndices::VSUSP, Signal::SIGTSTP),
        ];
        let keys = keys.map(|(index, signal)| (settings.control_chars[index as usize], signal));
        // 0 disables a key.
        Self(keys.into_iter().filter(|(key, _)| *key != 0).collect())
    }

    /// Splits typed input at the keys that cause signals.
    pub(crate) fn split<'a>(&self, mut typed: &'a [u8]) -> Vec<TypedPart<'a>> {
        let signal = |key: &u8| self.0.iter().find(|(one, _)| one == key);
        let mut parts = Vec::new();
        while let Some(at) = typed.iter().position(|key| signal(key).is_some()) {
            if at > 0 {
                parts.push(TypedPart::Text(&typed[..at]));
            }
            parts.extend(signal(&typed[at]).map(|(_, signal)| TypedPart::Signal(*signal)));
            typed = &typed[at + 1..];
        }
        if !typed.is_empty() {
            parts.push(TypedPart::Text(typed));
        }
        parts
    }
}

/// Sends a signal to the foreground group. Ignores a group that is gone.
pub(crate) fn send_signal(foreground: Pid, signal: Signal) {
    let _ = killpg(foreground, signal);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_text_between_signals() {
        use TypedPart::{Signal as Sent, Text};
        let keys = SignalKeys(vec![(3, Signal::SIGINT), (28, Signal::SIGQUIT)]);
        let check = |typed: &[u8], expect: &[TypedPart<'_>]| assert_eq!(keys.split(typed), expect);
        check(b"", &[]);
        check(b"ls\n", &[Text(b"ls\n")]);
        check(b"\x03", &[Sent(Signal::SIGINT)]);
        check(
            b"a\x03\x1cb",
            &[
                Text(b"a"),
                Sent(Signal::SIGINT),
                Sent(Signal::SIGQUIT),
                Text(b"b"),
            ],
        );
        assert_eq!(SignalKeys::default().split(b"\x03"), [Text(b"\x03")]);
    }
}
