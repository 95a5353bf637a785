//! Formats an error and its causes in one line, for messages and logs.
//!
//! Entry points: [`error_chain`], [`root_cause`].

use std::error::Error;
use std::iter::successors;

/// The messages of an error and all its causes, outermost first, separated by `: `.
pub fn error_chain(error: &dyn Error) -> String {
    let causes = successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// The message of the innermost cause; of the error itself if it has no cause.
pub fn root_cause(error: &dyn Error) -> String {
    let causes = successors(error.source(), |&cause| cause.source());
    causes
        .last()
        .map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    /// An error for each message; each is the cause of the one before.
    #[derive(Debug)]
    struct TestError {
        message: &'static str,
        cause: Option<Box<TestError>>,
    }

    impl fmt::Display for TestError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.message)
        }
    }

    impl Error for TestError {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.cause.as_deref().map(|cause| cause as _)
        }
    }

    #[test]
    fn causes_follow_the_error() {
        let check = |messages: &[&'static str], chain: &str, root: &str| {
            let mut error = None;
            for message in messages.iter().rev() {
                let cause = error.map(Box::new);
                error = Some(TestError { message, cause });
            }
            let error = error.expect("there is a message");
            assert_eq!(error_chain(&error), chain);
            assert_eq!(root_cause(&error), root);
        };
        check(&["one"], "one", "one");
        check(&["one", "two"], "one: two", "two");
        check(&["one", "two", "two"], "one: two: two", "two");
    }
}
