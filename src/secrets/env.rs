//! Secrets in environment variables.
//!
//! The environment is not read here: who started the process hands over a look-up, so that a test has
//! its own and nothing else of it is seen.

use std::ffi::OsString;
use std::sync::Arc;

use crate::diagnostic::Code;
use crate::model::Secret;
use crate::ports::{FoundSecret, SecretRemark};

/// Looks a variable up by its name.
pub type Variables = Arc<dyn Fn(&str) -> Option<OsString> + Send + Sync>;

/// The value of a variable.
pub(super) fn find(variables: &Variables, name: &str) -> Result<FoundSecret, SecretRemark> {
    let remark = |code, clause| Err(SecretRemark { code, clause });
    let Some(value) = variables(name) else {
        let clause = format!("the environment variable `{name}` is not set");
        return remark(Code::SecretUnset, clause);
    };
    match value.into_string() {
        Ok(value) if value.is_empty() => {
            let clause = format!("the environment variable `{name}` is empty");
            remark(Code::SecretEmpty, clause)
        }
        Ok(value) => Ok(FoundSecret {
            value: Secret::new(value),
            warning: None,
        }),
        Err(_) => {
            let clause = format!("the environment variable `{name}` is not text in UTF-8");
            remark(Code::SecretNotText, clause)
        }
    }
}
