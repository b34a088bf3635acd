//! Whether an answer is what was expected: pure.

use crate::csi::{Failure, Reached};
use crate::ports::StatusCode;

/// What a refusal should be: one of these codes.
///
/// # Errors
/// What came back, as a person reads it.
pub(super) fn refused<T>(answer: &Result<T, Failure>, codes: &[StatusCode]) -> Result<(), String> {
    match answer {
        Ok(_) => Err("OK".to_owned()),
        Err(failure) => match failure.reached {
            Reached::Answered(code) if codes.contains(&code) => Ok(()),
            Reached::Answered(_)
            | Reached::NotConnected(_)
            | Reached::TimedOut
            | Reached::Broken => Err(failure.to_string()),
        },
    }
}

/// Whether a call should be tried again, since another one is under way or the plugin is not there
/// for the moment.
pub(super) fn passes(failure: &Failure) -> bool {
    matches!(
        failure.reached,
        Reached::Answered(StatusCode::Aborted | StatusCode::Unavailable)
            | Reached::Broken
            | Reached::NotConnected(_)
    )
}

/// `ALREADY_EXISTS or INVALID_ARGUMENT`.
pub(super) fn words(codes: &[StatusCode]) -> String {
    let names: Vec<&str> = codes.iter().map(|code| code.as_spec()).collect();
    names.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(reached: Reached) -> Result<(), Failure> {
        Err(Failure {
            reached,
            message: "words".to_owned(),
            has_details: false,
        })
    }

    #[test]
    fn only_the_plugins_own_refusal_with_the_right_code_is_as_expected() {
        let codes = [StatusCode::NotFound];
        for (answer, expected) in [
            (failure(Reached::Answered(StatusCode::NotFound)), Ok(())),
            (
                failure(Reached::Answered(StatusCode::Internal)),
                Err("INTERNAL: words"),
            ),
            (Ok(()), Err("OK")),
            (failure(Reached::TimedOut), Err("words")),
            (failure(Reached::Broken), Err("the connection broke: words")),
        ] {
            let got = refused(&answer, &codes);
            assert_eq!(got, expected.map_err(str::to_owned), "{answer:?}");
        }
    }
}
