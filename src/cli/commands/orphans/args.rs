//! Arguments of `orphans`.

use clap::{ArgGroup, Args};

use crate::cli::args::{OutputArgs, SecretArgs};

/// Arguments of `orphans`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("change").args(["adopt", "delete_data"]).multiple(true))]
pub(crate) struct OrphansArgs {
    /// Plugin whose provider is listed
    #[arg(long, value_name = "ID")]
    pub plugin: String,
    /// Register this volume of the provider, by default under its external ID; repeatable
    #[arg(long, value_name = "[ID=]EXTERNAL_ID", conflicts_with = "delete_data")]
    pub adopt: Vec<String>,
    /// Delete this volume of the provider and its data; repeatable
    #[arg(long, value_name = "EXTERNAL_ID")]
    pub delete_data: Vec<String>,
    /// Capability to register, such as single-node-writer:file-system; repeatable
    ///
    /// For `--delete-data`, it is required only if the plugin refuses
    /// single-node-writer:file-system.
    #[arg(long, value_name = "ACCESS_MODE:ATTACHMENT_MODE")]
    pub capability: Vec<String>,
    /// Approve the deletion of this volume, `destroys-data:EXTERNAL_ID`; repeatable
    ///
    /// `cuts-off:ID`, with the full ID of an allocation or node, approves that its tasks may lose the data or write
    /// beside others. Make sure that the machine is off or cut off from its storage.
    #[arg(long, value_name = "RISK:ID", requires = "change")]
    pub approve: Vec<String>,
    /// Confirm the start without a prompt; does not approve a deletion
    #[arg(long, short)]
    pub yes: bool,
    /// The secrets.
    #[command(flatten)]
    pub secrets: SecretArgs,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
}
