//! Describes a registry's error in one line. Never shows a header or a token.

use oci_client::Reference;
use oci_client::errors::{OciDistributionError, OciErrorCode};

use crate::documents::shown;
use crate::error::ImageError;

pub(super) fn to_image_error(reference: &Reference, error: &OciDistributionError) -> ImageError {
    use OciDistributionError as Error;
    let reference = reference.whole();
    let why = match error {
        Error::UnauthorizedError { .. } | Error::AuthenticationFailure(_) => {
            return ImageError::Login { reference };
        }
        Error::ImageManifestNotFoundError(_) => "there is no such image".to_owned(),
        Error::RegistryError { envelope, .. } => {
            let codes = || envelope.errors.iter().map(|error| &error.code);
            let is_missing = |code: &OciErrorCode| {
                matches!(
                    code,
                    OciErrorCode::ManifestUnknown
                        | OciErrorCode::NameUnknown
                        | OciErrorCode::NotFound
                )
            };
            let is_barred = |code: &OciErrorCode| {
                matches!(code, OciErrorCode::Unauthorized | OciErrorCode::Denied)
            };
            if codes().any(is_barred) {
                return ImageError::Login { reference };
            }
            match envelope.errors.first() {
                _ if codes().any(is_missing) => "there is no such image".to_owned(),
                Some(error) if error.code == OciErrorCode::BlobUnknown => {
                    "the registry has lost a part of it".to_owned()
                }
                Some(error) => format!("the registry says `{}`", shown(&error.message)),
                None => "the registry refuses it without a reason".to_owned(),
            }
        }
        Error::ServerError { code: 404, .. } => "there is no such image".to_owned(),
        Error::ServerError { code, .. } => format!("the registry answers with status {code}"),
        Error::DigestError(_) => "the registry sent content with a wrong digest".to_owned(),
        other => root_cause(other),
    };
    ImageError::Fetch {
        reference,
        why: shown(&why.replace('\n', " ")),
    }
}

/// The message of the root cause. The errors above it only say that something failed.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.last().map(ToString::to_string).unwrap_or_default()
}
