//! The ledger that a command uses, and its sets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::context::WorkflowContext;
use crate::ports::{Ledger, LedgerError};
use crate::reconcile::ledger::SetLedger;
use crate::reconcile::volume_owners::{self, Owner};
use nomad_csi_model::diagnostic::{Code, Diagnostic, closest_match};
use nomad_csi_model::{Namespace, NamespacedId, SetName, shell_quoted};
use nomad_csi_plan::LedgerLocation;
use nomad_csi_ports::{IdSource, RandomIds};

/// The ledger that a command uses.
#[derive(Clone)]
pub struct LedgerAccess {
    /// The ledger.
    pub ledger: Arc<dyn Ledger>,
    /// The namespace of the variables that hold it; `None` if it is a file.
    pub variables_namespace: Option<Namespace>,
    /// The flags that select it on a command line, each after a space. Empty for the default ledger.
    pub flags: String,
}

/// A set, and the ledger that holds it.
#[derive(Clone)]
pub struct SetSelection {
    /// The ledger.
    pub access: LedgerAccess,
    /// The set's name.
    pub name: SetName,
}

impl SetSelection {
    /// Selects a set, unless no ledger is used or no set is named.
    pub fn new(access: Option<LedgerAccess>, name: Option<&SetName>) -> Option<Self> {
        Some(Self { access: access?, name: name?.clone() })
    }

    /// Reads the set.
    ///
    /// # Errors
    /// If the ledger cannot be read or used.
    pub async fn open(&self) -> Result<SetLedger, LedgerError> {
        self.access.open_set(&self.name).await
    }

    /// Returns the variables that hold the set; `None` if a file does.
    pub fn variables(&self) -> Option<LedgerLocation> {
        Some(LedgerLocation {
            namespace: self.access.variables_namespace.clone()?,
            set: self.name.clone(),
        })
    }
}

impl LedgerAccess {
    /// Reads a set.
    ///
    /// # Errors
    /// If the ledger cannot be read or used.
    pub async fn open_set(&self, name: &SetName) -> Result<SetLedger, LedgerError> {
        let ledger = Arc::clone(&self.ledger);
        SetLedger::open(ledger, name.clone(), Arc::new(RandomIds)).await
    }

    /// Reads all sets.
    ///
    /// # Errors
    /// If the sets cannot be listed. A set that cannot be read is an error in its place.
    pub async fn all_sets(&self) -> Result<Vec<Result<SetLedger, LedgerError>>, LedgerError> {
        let ids: Arc<dyn IdSource> = Arc::new(RandomIds);
        volume_owners::all_sets(&self.ledger, &ids).await
    }

    /// Returns the sets, except one, that own these volumes.
    ///
    /// # Errors
    /// If the sets cannot be listed. Sets that cannot be read are skipped.
    pub async fn owners(
        &self,
        volumes: &BTreeSet<NamespacedId>,
        except: Option<&SetName>,
    ) -> Result<BTreeMap<NamespacedId, Vec<Owner>>, LedgerError> {
        let ids: Arc<dyn IdSource> = Arc::new(RandomIds);
        volume_owners::owners(&self.ledger, &ids, volumes, except).await
    }

    /// Returns the command that removes a volume from a set.
    pub fn forget_command(&self, key: &NamespacedId, set: &SetName) -> String {
        let id = shell_quoted(&key.id);
        let scope = match key.namespace == Namespace::default() {
            true => String::new(),
            false => format!(" --namespace {}", shell_quoted(&key.namespace)),
        };
        format!("nomad-csi forget {id}{scope} --set {set}{}", self.flags)
    }

    /// Explains that the ledger has no such set. Suggests a similar name if the sets can be listed.
    pub async fn set_not_found(&self, context: &WorkflowContext<'_>, name: &SetName) -> Diagnostic {
        let message = format!("set `{name}` does not exist in {}", self.ledger.name());
        let problem = Diagnostic::error(Code::SetNotFound, message);
        let listing = context.unless_interrupted(self.ledger.sets()).await;
        let sets = listing.ok().and_then(Result::ok).unwrap_or_default();
        let problem = match closest_match(name.as_str(), sets.iter().map(SetName::as_str)) {
            Some(similar) => problem.help(format!("did you mean `{similar}`?")),
            None => problem,
        };
        problem
            .help(format!(
                "run `nomad-csi set list{}` to list all sets; `apply --set` creates one",
                self.flags
            ))
            .help("to use another ledger, add `--ledger` or `--ledger-namespace`")
    }
}
