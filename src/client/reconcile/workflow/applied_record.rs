//! The set in the ledger that drift is compared with.

use super::error::WorkflowError;
use super::ledger_access::LedgerAccess;
use nomad_csi_model::SetName;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_plan::LedgerSet;

/// The record of what was applied, or the reason why none exists.
pub enum AppliedRecord {
    /// The set in the ledger.
    Set(Box<LedgerSet>),
    /// No record exists: why.
    Missing(Box<Diagnostic>),
}

impl AppliedRecord {
    /// Reads the record.
    ///
    /// # Errors
    /// If a set is named and the ledger cannot be read.
    pub async fn read(
        access: Option<&LedgerAccess>,
        set: Option<&SetName>,
    ) -> Result<Self, WorkflowError> {
        let Some(name) = set else {
            let why = missing("no set is named");
            return Ok(Self::Missing(Box::new(why.help(
                "name the set with `--set NAME`, or with `set = \"NAME\"` in a specification file",
            ))));
        };
        let Some(access) = access else {
            return Ok(Self::Missing(Box::new(missing("no ledger is used (`--ledger none`)"))));
        };
        let set = access.open_set(name).await?;
        if set.exists() {
            return Ok(Self::Set(Box::new(set.set().clone())));
        }
        let why = missing(&format!("set `{name}` is not in {}", access.ledger.name()));
        Ok(Self::Missing(Box::new(
            why.help("run `nomad-csi set list` to list all sets; `apply --set` creates one"),
        )))
    }

    /// The set, if it is recorded.
    pub fn set(&self) -> Option<&LedgerSet> {
        match self {
            Self::Set(set) => Some(set),
            Self::Missing(_) => None,
        }
    }

    /// Why no record exists, if none does.
    pub fn warning(&self) -> Option<&Diagnostic> {
        match self {
            Self::Set(_) => None,
            Self::Missing(why) => Some(why),
        }
    }
}

fn missing(why: &str) -> Diagnostic {
    let message = format!("{why}, so the volumes are compared with the files");
    Diagnostic::warning(Code::DriftNoRecord, message)
        .note("without a record of what was applied, a difference may come from the server or from the files")
}
