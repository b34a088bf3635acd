//! `volume claims`, `volume claim`, `volume release`.

use super::claim_args::{ClaimArgs, ClaimsArgs, ReleaseArgs};
use crate::cli::command_context::CommandContext;
use crate::cli::commands::status::{check_namespace, print_list};
use crate::cli::commands::watching::look_or_watch;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{OutputFormat, claim_list};
use nomad_csi_client::ports::{ClusterApi, VolumeClaimRequest, VolumeReleaseRequest, WatchTopic};
use nomad_csi_client::reconcile::workflow::{claim_volume, list_claims, release_volume};
use nomad_csi_model::{AllocId, Namespace, NamespacedId, VolumeAlias, VolumeId};

/// Lists claims.
///
/// # Errors
/// Those of [`list_claims`].
pub(crate) async fn show_claims(
    context: &CommandContext,
    arguments: &ClaimsArgs,
) -> Result<Exit, CliError> {
    let topics = vec![WatchTopic::Claims(context.namespace()?.unwrap_or_default())];
    let (watch, output) = (arguments.watch, &arguments.output.output);
    look_or_watch(context, watch, output, topics, async |api, output| {
        look(context, api, arguments, output).await
    })
    .await
}

async fn look(
    context: &CommandContext,
    cluster: &dyn ClusterApi,
    arguments: &ClaimsArgs,
    output: &OutputFormat,
) -> Result<Exit, CliError> {
    let workflow = context.workflow(cluster, "volume claims", 1);
    let scope = context.namespace()?.unwrap_or_default();
    let id = arguments.id.as_deref();
    let listed = list_claims(&workflow, &scope, id).await?;
    if listed.is_empty() {
        check_namespace(cluster, &scope, "list claims").await?;
    }
    print_list(context, output, listed, &nothing(&scope, id), |claims| {
        claim_list(claims, &context.time_reference(), output.is_wide())
    })
}

fn nothing(scope: &Namespace, id: Option<&str>) -> String {
    match id {
        Some(id) => format!("No claims of volume {id}"),
        None if scope.as_str() == Namespace::ALL => "No claims in any namespace".to_owned(),
        None => format!("No claims in namespace {scope}"),
    }
}

/// Claims a volume and prints its target path.
///
/// # Errors
/// Those of [`claim_volume`].
pub(crate) async fn claim(
    context: &CommandContext,
    arguments: &ClaimArgs,
) -> Result<Exit, CliError> {
    context
        .with_cluster(async |cluster| {
            let workflow = context.workflow(cluster, "volume claim", 1);
            let request = VolumeClaimRequest {
                volume: key(context, &arguments.id)?,
                alloc: AllocId::new(&arguments.alloc),
                node: None,
                alias: arguments.alias.as_deref().map(VolumeAlias::new),
                read_only: arguments.read_only,
                access_mode: arguments.access_mode,
                attachment_mode: arguments.attachment_mode,
                wait: arguments.wait.0,
            };
            let wait = arguments.wait.to_string();
            let node = arguments.node.as_deref();
            let claim = claim_volume(&workflow, context, request, node, &wait).await?;
            let target = format!("{}\n", claim.target_path);
            context.printer.print_result(&target);
            Ok(Exit::Done)
        })
        .await
}

/// Releases a volume.
///
/// # Errors
/// Those of [`release_volume`].
pub(crate) async fn release(
    context: &CommandContext,
    arguments: &ReleaseArgs,
) -> Result<Exit, CliError> {
    context
        .with_cluster(async |cluster| {
            let workflow = context.workflow(cluster, "volume release", 1);
            let request = VolumeReleaseRequest {
                volume: key(context, &arguments.id)?,
                alloc: AllocId::new(&arguments.alloc),
                cuts_off: arguments.cuts_off()?,
                alias: arguments.alias.as_deref().map(VolumeAlias::new),
                wait: arguments.wait.0,
            };
            let wait = arguments.wait.to_string();
            release_volume(&workflow, request, &wait).await?;
            Ok(Exit::Done)
        })
        .await
}

fn key(context: &CommandContext, id: &str) -> Result<NamespacedId, CliError> {
    let namespace = context.namespace()?.unwrap_or_default();
    Ok(NamespacedId::new(namespace, VolumeId::new(id)))
}
