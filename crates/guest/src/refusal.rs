//! Converts operating system errors to refusals that a user or a model can act on.

use std::io;
use std::path::Path;

use link::request::{GuestResult, Refusal, RefusalKind};
use nix::errno::Errno;

/// `cannot <what>: <error>`.
pub(crate) fn refuse(what: impl std::fmt::Display, error: impl Into<io::Error>) -> Refusal {
    let error = error.into();
    let kind = match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT) => RefusalKind::NotFound,
        Some(Errno::EACCES | Errno::EPERM | Errno::EROFS) => RefusalKind::Denied,
        Some(Errno::EEXIST) => RefusalKind::Exists,
        Some(Errno::ENOTDIR | Errno::EISDIR | Errno::ELOOP) => RefusalKind::WrongType,
        Some(Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG) => RefusalKind::NoSpace,
        Some(Errno::EAGAIN | Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM) => RefusalKind::Limit,
        Some(Errno::EINVAL | Errno::ENAMETOOLONG | Errno::E2BIG) => RefusalKind::Invalid,
        _ => RefusalKind::Other,
    };
    let why = match error.raw_os_error().map(Errno::from_raw) {
        Some(errno) => errno.desc().to_owned(),
        None => error.to_string(),
    };
    Refusal {
        kind,
        message: format!("cannot {what}: {why}"),
    }
}

pub(crate) fn refuse_with(kind: RefusalKind, message: impl Into<String>) -> Refusal {
    Refusal {
        kind,
        message: message.into(),
    }
}

/// Adds the operation and its path to an error.
pub(crate) trait PathContext<T> {
    fn on(self, verb: &str, path: &Path) -> GuestResult<T>;
}

impl<T, E: Into<io::Error>> PathContext<T> for Result<T, E> {
    fn on(self, verb: &str, path: &Path) -> GuestResult<T> {
        self.map_err(|error| refuse(format_args!("{verb} `{}`", path.display()), error))
    }
}
