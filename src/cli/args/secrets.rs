//! Arguments that supply secrets for the storage provider.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::redacted::RedactedText;

/// Secrets for requests that have no specification.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SecretArgs {
    /// YAML or JSON file that maps the provider's secret names to values
    ///
    /// In place of a value, `{env: NAME}` reads an environment variable and `{file: PATH}` reads a
    /// file. PATH is relative to the directory of this file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub secrets: Option<PathBuf>,
    /// Secret for the provider: KEY=env:NAME or KEY=file:PATH; repeatable
    ///
    /// Overrides the same key of `--secrets`. Values are not accepted here, because other users can
    /// read them in the process list.
    #[arg(long, value_name = "KEY=SOURCE")]
    pub secret_from: Vec<RedactedText>,
}
