//! Arguments that name a ledger.

use clap::Args;

use super::ledger_choice::LedgerChoice;

/// Help of `--ledger-namespace`.
pub(crate) const LEDGER_NAMESPACE_HELP: &str = "Namespace of the variables that hold the ledger";

const HEADING: &str = "Ledger";

/// The ledger that records what sets own.
#[derive(Args, Clone, Debug)]
pub(crate) struct LedgerArgs {
    /// Storage of the ledger: nomad, file:PATH or none
    ///
    /// `nomad` stores the ledger in the server's variables below `nomad-csi/sets`. It requires Nomad
    /// 1.7 or later, or the agent. A ledger holds no secrets. Losing it is safe: a volume that no set
    /// owns is never pruned.
    #[arg(long, value_name = "STORAGE", default_value = "nomad", value_parser = LedgerChoice::parse, help_heading = HEADING)]
    pub ledger: LedgerChoice,
    #[arg(long, value_name = "NAME", default_value = "default", help_heading = HEADING, hide_short_help = true, help = LEDGER_NAMESPACE_HELP)]
    pub ledger_namespace: String,
}
