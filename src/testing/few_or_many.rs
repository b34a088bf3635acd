//! How long a test goes on: as long as a person waits who changes something, or as long as CI does.

/// Set by CI, and by a person who can wait.
const THOROUGH: &str = "NOMAD_CSI_THOROUGH";

/// Returns `few`, or `many` if the environment has `NOMAD_CSI_THOROUGH=1`.
pub fn few_or_many<T>(few: T, many: T) -> T {
    match std::env::var_os(THOROUGH).is_some_and(|value| value == "1") {
        true => many,
        false => few,
    }
}
