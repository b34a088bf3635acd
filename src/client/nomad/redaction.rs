//! Removes secrets from what servers send back: errors and volume documents.
//!
//! Plugins repeat secrets in their errors, and Nomad before 1.3 returns them in volumes.

use serde_json::Value;

use crate::ports::ApiError;
use nomad_csi_model::{MountOptions, Secrets};

/// Removes the secrets of a request from an error.
pub(super) fn redact_secrets(error: ApiError, secrets: &Secrets) -> ApiError {
    redact_texts(error, secrets.expose().map(|(_, value)| value))
}

/// Removes texts from an error. Very short texts stay, because removing them would garble the
/// message.
pub(super) fn redact_texts<'s>(
    mut error: ApiError,
    texts: impl IntoIterator<Item = &'s str>,
) -> ApiError {
    const MIN_LENGTH: usize = 4;
    for secret in texts.into_iter().filter(|text| text.len() >= MIN_LENGTH) {
        let redact = |text: &mut String| *text = text.replace(secret, MountOptions::REDACTED);
        redact(&mut error.message);
        error.notes.iter_mut().for_each(redact);
        error.help.iter_mut().for_each(redact);
        error.server_text.iter_mut().for_each(redact);
    }
    error
}

/// Returns the values of mount flags such as `password=…`.
pub(super) fn mount_flag_values(options: Option<&MountOptions>) -> impl Iterator<Item = &str> {
    let flags = options.into_iter().flat_map(|options| &options.mount_flags);
    flags.filter_map(|flag| flag.split_once('=').map(|(_, value)| value))
}

/// Removes secrets and mount flags from a volume's JSON. Returns whether it found any.
pub(super) fn redact_volume(volume: &mut Value) -> bool {
    let mut found = false;
    let secrets = volume.get_mut("Secrets");
    if let Some(secrets) = secrets.filter(|secrets| !secrets.is_null()) {
        *secrets = Value::Null;
        found = true;
    }
    let flags = volume.pointer_mut("/MountOptions/MountFlags");
    if let Some(Value::Array(flags)) = flags
        && !flags.is_empty()
    {
        *flags = vec![Value::from(MountOptions::REDACTED)];
        found = true;
    }
    found
}
