//! Detects errors caused by exhausted resources of the server: files, memory, disk, processes. Such
//! a failure is not caused by the job, and may be transient.

use std::error::Error;
use std::io;

use nix::errno::Errno;
use store::StoreError;

/// The exhausted resource; `None` for other errors.
pub(crate) fn what_ran_out(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(what) = exhausted_by_error(error) {
            return Some(what);
        }
        next = error.source();
    }
    None
}

fn exhausted_by_error(error: &(dyn Error + 'static)) -> Option<&'static str> {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return exhausted_by_io(error);
    }
    if let Some(errno) = error.downcast_ref::<Errno>() {
        return exhausted_by_errno(*errno);
    }
    if let Some(error) = error.downcast_ref::<StoreError>() {
        return match error {
            error if error.is_full() => Some("disk space"),
            error if error.is_out_of_resources() => Some("open files or memory"),
            _ => None,
        };
    }
    exhausted_by_text(&error.to_string())
}

/// Some errors contain their cause only as text.
fn exhausted_by_text(text: &str) -> Option<&'static str> {
    let (_, number) = text.strip_suffix(')')?.rsplit_once("(os error ")?;
    exhausted_by_errno(Errno::from_raw(number.parse().ok()?))
}

fn exhausted_by_io(error: &io::Error) -> Option<&'static str> {
    if let Some(number) = error.raw_os_error() {
        return exhausted_by_errno(Errno::from_raw(number));
    }
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => return Some("disk space"),
        io::ErrorKind::OutOfMemory => return Some("memory"),
        _ => {}
    }
    // `io::Error::source` skips the wrapped error itself.
    error.get_ref().and_then(|inner| what_ran_out(inner))
}

fn exhausted_by_errno(errno: Errno) -> Option<&'static str> {
    Some(match errno {
        Errno::EMFILE | Errno::ENFILE => "open files",
        Errno::ENOSPC | Errno::EDQUOT => "disk space",
        Errno::ENOMEM => "memory",
        // Returned by `clone` and `fork`.
        Errno::EAGAIN => "processes",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot do it")]
    struct Outer<E: fmt::Debug + Error + 'static>(#[source] E);

    fn check(error: &(dyn Error + 'static), expect: Option<&str>) {
        assert_eq!(what_ran_out(error), expect, "{error:?}");
    }

    #[test]
    fn an_exhausted_resource_is_found_in_the_chain_of_sources() {
        let io = |errno: Errno| io::Error::from_raw_os_error(errno as i32);
        for (errno, expect) in [
            (Errno::EMFILE, Some("open files")),
            (Errno::ENFILE, Some("open files")),
            (Errno::ENOSPC, Some("disk space")),
            (Errno::EDQUOT, Some("disk space")),
            (Errno::ENOMEM, Some("memory")),
            (Errno::EAGAIN, Some("processes")),
            (Errno::EACCES, None),
            (Errno::ENOENT, None),
        ] {
            check(&io(errno), expect);
            check(&errno, expect);
            check(&Outer(Outer(io(errno))), expect);
            check(&Outer(errno), expect);
            check(&io::Error::other(Outer(io(errno))), expect);
            check(&io::Error::other(io(errno)), expect);
        }
        check(
            &io::Error::from(io::ErrorKind::StorageFull),
            Some("disk space"),
        );
        check(&io::Error::other("Too many open files"), None);
        let said = format!("cannot make it: {}", io(Errno::EMFILE));
        check(&io::Error::other(said), Some("open files"));
    }
}
