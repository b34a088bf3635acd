//! Arguments that limit or extend what a command may change.

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::Args;

use super::value_parsers::one_of;
use nomad_csi_model::{NamespacedId, ServerVersion};
use nomad_csi_plan::{DenyRule, Risk};

/// Help of `--server-version`.
pub(crate) const SERVER_VERSION_HELP: &str =
    "Version of the Nomad server [default: the version that the server reports]";

/// Help of `--no-provider`.
pub(crate) const NO_PROVIDER_HELP: &str = "Do not ask providers which volumes they have";

const HEADING: &str = "Changes";
const PRUNE_HELP: &str =
    "Also deregister volumes that the set owns and no file declares; their data stays";
const PRUNE_LONG_HELP: &str = "Also deregister volumes that the set owns and no file declares; their data stays\n\n\
     Files that name a set (`set = \"NAME\"`) and declare no volume remove every volume from the \
     set. Missing files never do.";
const ACCEPT_LOSS_HELP: &str =
    "Allow an update to erase a value that the server hides and the file omits; repeatable";
const MAX_RISK_HELP: &str = "Highest risk to accept without approval [default: reversible]";
const APPROVE_HELP: &str = "Approve changes of this risk for one volume; repeatable";
pub(crate) const SHARE_HELP: &str =
    "Let this volume have data that another volume has, such as an NFS export; repeatable";
const DENY_HELP: &str = "Refuse every change of this kind; repeatable";

/// The additional changes that a command may make, and the server that it plans for.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ChangeArgs {
    #[arg(long, help_heading = HEADING, help = PRUNE_HELP, long_help = PRUNE_LONG_HELP)]
    pub prune: bool,
    /// Remove this volume and create it again; repeatable
    ///
    /// A volume that the provider creates loses its data. For a volume that is registered by its
    /// external ID, only the registration is replaced. A protected volume whose registration and data
    /// are gone is created again, empty, only with this option.
    #[arg(long, value_name = "[NAMESPACE/]ID", help_heading = HEADING)]
    pub replace: Vec<String>,
    /// Take a snapshot of each volume before it is replaced
    #[arg(long, requires = "replace", help_heading = HEADING)]
    pub snapshot_first: bool,
    /// Delete this volume and its data; no file may declare it; repeatable
    #[arg(long, value_name = "[NAMESPACE/]ID", help_heading = HEADING)]
    pub delete_data: Vec<String>,
    /// Allow an update to erase a value that the server hides and the file omits; repeatable
    ///
    /// FIELD is secrets or mount_flags.
    #[arg(long, value_name = "FIELD:[NAMESPACE/]ID", help_heading = HEADING)]
    pub accept_loss: Vec<String>,
    #[arg(long, value_name = "RISK", help_heading = HEADING, value_parser = one_of(Risk::ALL, Risk::as_str), help = MAX_RISK_HELP)]
    pub max_risk: Option<Risk>,
    /// Approve changes of this risk for one volume; repeatable
    ///
    /// RISK is needs-downtime, loses-access or destroys-data. Only this option approves that a volume of a set gets
    /// other data than the set recorded.
    ///
    /// `cuts-off:ID`, with the full ID of an allocation or node, approves that its tasks may write to the same data.
    /// Make sure that the machine is off or cut off from its storage.
    #[arg(long, value_name = "RISK:[NAMESPACE/]ID", help_heading = HEADING)]
    pub approve: Vec<String>,
    #[arg(long, value_name = "[NAMESPACE/]ID", help_heading = HEADING, help = SHARE_HELP)]
    pub share: Vec<String>,
    #[arg(long, value_name = "RULE", value_delimiter = ',', help_heading = HEADING, value_parser = one_of(DenyRule::ALL, DenyRule::as_str), help = DENY_HELP)]
    pub deny: Vec<DenyRule>,
    #[arg(long, value_name = "VERSION", help_heading = HEADING, help = SERVER_VERSION_HELP)]
    pub server_version: Option<ServerVersion>,
    #[arg(long, help_heading = HEADING, help = NO_PROVIDER_HELP)]
    pub no_provider: bool,
    /// The volumes that all runs of the command declare, each with its directory; `None` for a single run.
    #[arg(skip)]
    pub declared_in_runs: Option<Arc<BTreeMap<NamespacedId, String>>>,
}

/// The changes that `reconcile --apply` may make in every round: no change that is meant for one run.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct StandingChangeArgs {
    #[arg(long, requires = "apply", help_heading = HEADING, help = PRUNE_HELP, long_help = PRUNE_LONG_HELP)]
    pub prune: bool,
    #[arg(long, value_name = "FIELD:[NAMESPACE/]ID", requires = "apply", help_heading = HEADING, help = ACCEPT_LOSS_HELP)]
    pub accept_loss: Vec<String>,
    #[arg(long, value_name = "RISK", requires = "apply", help_heading = HEADING, value_parser = one_of(Risk::ALL, Risk::as_str), help = MAX_RISK_HELP)]
    pub max_risk: Option<Risk>,
    #[arg(long, value_name = "RISK:[NAMESPACE/]ID", requires = "apply", help_heading = HEADING, help = APPROVE_HELP)]
    pub approve: Vec<String>,
    #[arg(long, value_name = "[NAMESPACE/]ID", help_heading = HEADING, help = SHARE_HELP)]
    pub share: Vec<String>,
    #[arg(long, value_name = "RULE", value_delimiter = ',', requires = "apply", help_heading = HEADING, value_parser = one_of(DenyRule::ALL, DenyRule::as_str), help = DENY_HELP)]
    pub deny: Vec<DenyRule>,
    #[arg(long, value_name = "VERSION", help_heading = HEADING, help = SERVER_VERSION_HELP)]
    pub server_version: Option<ServerVersion>,
    #[arg(long, help_heading = HEADING, help = NO_PROVIDER_HELP)]
    pub no_provider: bool,
}

impl From<StandingChangeArgs> for ChangeArgs {
    fn from(changes: StandingChangeArgs) -> Self {
        Self {
            prune: changes.prune,
            accept_loss: changes.accept_loss,
            max_risk: changes.max_risk,
            approve: changes.approve,
            deny: changes.deny,
            share: changes.share,
            server_version: changes.server_version,
            no_provider: changes.no_provider,
            ..Self::default()
        }
    }
}
