//! Secrets in environment variables.
//!
//! The caller provides the lookup, so tests can replace the environment.

use std::ffi::OsString;
use std::sync::Arc;

use crate::ports::{ResolvedSecret, SecretProblem};
use nomad_csi_model::Secret;
use nomad_csi_model::diagnostic::Code;

/// Looks up an environment variable.
pub type EnvLookup = Arc<dyn Fn(&str) -> Option<OsString> + Send + Sync>;

/// Returns the secret in a variable.
pub(super) fn find(variables: &EnvLookup, name: &str) -> Result<ResolvedSecret, SecretProblem> {
    let remark = |code, clause| Err(SecretProblem { code, message: clause });
    let Some(value) = variables(name) else {
        let clause = format!("the environment variable `{name}` is not set");
        return remark(Code::SecretUnset, clause);
    };
    match value.into_string() {
        Ok(value) if value.is_empty() => {
            let clause = format!("the environment variable `{name}` is empty");
            remark(Code::SecretEmpty, clause)
        }
        Ok(value) => Ok(ResolvedSecret { value: Secret::new(value), warning: None }),
        Err(_) => {
            let clause = format!("the environment variable `{name}` is not UTF-8");
            remark(Code::SecretNotText, clause)
        }
    }
}
