//! Whether a response is the expected one: pure functions.

use nomad_csi_csi::{CallFailure, FailureKind};
use nomad_csi_ports::StatusCode;

/// Checks that a call failed with one of `codes`.
///
/// # Errors
/// Returns the actual response as text.
pub(super) fn check_refusal<T>(
    response: &Result<T, CallFailure>,
    codes: &[StatusCode],
) -> Result<(), String> {
    match response {
        Ok(_) => Err("OK".to_owned()),
        Err(failure) => match failure.kind {
            FailureKind::Answered(code) if codes.contains(&code) => Ok(()),
            FailureKind::Answered(_)
            | FailureKind::NotConnected(_)
            | FailureKind::TimedOut
            | FailureKind::ConnectionLost => Err(failure.to_string()),
        },
    }
}

/// Returns whether a retry may help: another call is in progress, or the plugin is unavailable.
pub(super) fn is_transient(failure: &CallFailure) -> bool {
    matches!(
        failure.kind,
        FailureKind::Answered(StatusCode::Aborted | StatusCode::Unavailable)
            | FailureKind::ConnectionLost
            | FailureKind::NotConnected(_)
    )
}

/// Joins codes, as in `ALREADY_EXISTS or INVALID_ARGUMENT`.
pub(super) fn join_codes(codes: &[StatusCode]) -> String {
    let names: Vec<&str> = codes.iter().map(|code| code.as_spec()).collect();
    names.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(reached: FailureKind) -> Result<(), CallFailure> {
        Err(CallFailure {
            kind: reached,
            message: "words".to_owned(),
            repeats_secret: false,
            has_details: false,
        })
    }

    #[test]
    fn only_a_status_of_the_plugin_with_the_right_code_is_expected() {
        let codes = [StatusCode::NotFound];
        for (response, expected) in [
            (failure(FailureKind::Answered(StatusCode::NotFound)), Ok(())),
            (failure(FailureKind::Answered(StatusCode::Internal)), Err("INTERNAL: words")),
            (Ok(()), Err("OK")),
            (failure(FailureKind::TimedOut), Err("words")),
            (failure(FailureKind::ConnectionLost), Err("connection lost: words")),
        ] {
            let got = check_refusal(&response, &codes);
            assert_eq!(got, expected.map_err(str::to_owned), "{response:?}");
        }
    }
}
