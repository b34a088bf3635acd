//! `forget`: removes volumes from a set, and changes nothing else.

use clap::Args;

use crate::cli::args::LedgerArgs;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ledger::required_ledger;
use nomad_csi_client::reconcile::workflow::{SetSelection, forget_volumes};
use nomad_csi_model::{NamespacedId, SetName, VolumeId};

/// Arguments of `forget`.
#[derive(Args, Debug)]
pub(crate) struct ForgetArgs {
    /// Exact IDs of the volumes
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<String>,
    /// Set that owns the volumes
    #[arg(long, value_name = "NAME")]
    pub set: SetName,
    /// The ledger of the set.
    #[command(flatten)]
    pub ledger: LedgerArgs,
}

/// Removes volumes from a set.
///
/// # Errors
/// If no ledger is selected, and those of [`forget_volumes`].
pub(crate) async fn forget_from_set(
    context: &CommandContext,
    arguments: &ForgetArgs,
) -> Result<Exit, CliError> {
    context
        .with_cluster(async |cluster| {
            let selection = SetSelection {
                access: required_ledger(context, &arguments.ledger, cluster)?,
                name: arguments.set.clone(),
            };
            let scope = context.namespace()?.unwrap_or_default();
            let ids = arguments.ids.iter();
            let key = |id: &String| NamespacedId::new(scope.clone(), VolumeId::new(id));
            let keys: Vec<NamespacedId> = ids.map(key).collect();
            let workflow = context.workflow(cluster, "forget", 1);
            forget_volumes(&workflow, &selection, &keys).await?;
            Ok(Exit::Done)
        })
        .await
}
