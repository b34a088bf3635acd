//! `volume detach`: what an allocation that has ended left behind on a node is released there.
//!
//! A server releases only what nobody uses any more, and does not say whether it found something
//! (`nomad-http-api` 3.8, `users` 3): it answers the same, or, as Nomad 2.0.5 where there is nothing,
//! `Unknown allocation`. So it is looked at before who may still use the volume on
//! that node, and afterwards what has changed.

use std::collections::BTreeSet;

use super::find::the_volume;
use crate::cli::args::Detach;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::one_line;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{NodeId, Volume};
use crate::plan::Holder;
use crate::ports::{ApiError, VolumeApi};

/// Detaches.
///
/// # Errors
/// If there is no such volume or node, an allocation there may still use the volume, or the server
/// says no.
pub(crate) async fn run(context: &Context, arguments: &Detach) -> Result<Exit, CliError> {
    context
        .with_server(async |api| detach(context, api, arguments).await)
        .await
}

async fn detach(
    context: &Context,
    api: &dyn VolumeApi,
    arguments: &Detach,
) -> Result<Exit, CliError> {
    let before = the_volume(context, api, &arguments.id).await?;
    let node = node(&before, &arguments.node)?;
    if let Some(problem) = still_used(&before, &node) {
        return Err(CliError::blocked([problem]));
    }
    if context.interrupts.stop().is_cancelled() {
        return Err(CliError::said(Exit::Interrupted));
    }
    let key = before.key();
    let lost = match api.detach_volume(&key, &node).await {
        Ok(()) => None,
        Err(error) if error.code == Code::VolumeNotAttached && !before.is_claimed() => None,
        Err(error) if error.code == Code::VolumeNotAttached => return Err(stuck(&before, &error)),
        Err(error) if error.code == Code::ApiOutcomeUnknown => Some(error),
        Err(error) => return Err(error.into()),
    };
    let now = api.read_volume(&key).await;
    let now = match (now, lost) {
        (Ok(now), None) => now,
        (Ok(now), Some(_)) if now.as_ref().is_none_or(|now| differs(&before, &now.value)) => now,
        (Ok(_), Some(error)) => return Err(unknown(&error).into()),
        (Err(error), lost) => return Err(lost.unwrap_or(error).into()),
    };
    let shown = one_line(&key.to_string());
    let line = match now {
        None => format!("volume {shown}: is no longer registered"),
        Some(now) if differs(&before, &now.value) => {
            format!("volume {shown}: detached from node {node}")
        }
        Some(_) => format!(
            "volume {shown}: the server shows nothing that was left on node {node}, and nothing has changed"
        ),
    };
    context.printer.talk(&line);
    Ok(Exit::Done)
}

/// The server knows of nothing there, and still has claims: of allocations that are elsewhere, or gone.
fn stuck(volume: &Volume, error: &ApiError) -> CliError {
    let holders = Holder::of(volume);
    let gone = holders.iter().any(|holder| holder.alloc.is_none());
    let told = |problem: Diagnostic, holder: &Holder| problem.note(holder.to_string());
    let problem = holders.iter().fold(error.diagnostic(), told);
    let problem = if gone {
        problem.help("once you are sure that nothing has the volume mounted, `volume deregister --force` drops claims of allocations that the server no longer knows; registering it again makes it usable")
    } else {
        problem.help("name the node on which the allocation is that claims it")
    };
    CliError::blocked([problem])
}

/// Sending it again does no harm: what is detached stays so.
fn unknown(error: &ApiError) -> Diagnostic {
    error
        .diagnostic()
        .note("the server shows the volume as before; it may still be at work")
        .help("wait a little, then run the same command again: what is detached stays detached")
}

/// Whether claims or the modes in force are others now.
fn differs(before: &Volume, now: &Volume) -> bool {
    let of = |volume: &Volume| {
        (
            volume.read_allocs.clone(),
            volume.write_allocs.clone(),
            volume.access_mode,
            volume.attachment_mode,
        )
    };
    of(before) != of(now)
}

/// The node that is meant: one that an allocation of the volume is on, by its name or the start of
/// its ID, or any node by its whole ID.
fn node(volume: &Volume, text: &str) -> Result<NodeId, CliError> {
    let meant = volume
        .allocs
        .iter()
        .filter(|alloc| alloc.node_name == text || alloc.node_id.as_str().starts_with(text));
    let meant: BTreeSet<&NodeId> = meant.map(|alloc| &alloc.node_id).collect();
    let mut all = meant.iter();
    match (all.next(), all.next()) {
        (Some(only), None) => return Ok((*only).clone()),
        (Some(_), Some(_)) => {
            let message = format!("`{}` names {} nodes", one_line(text), meant.len());
            let ids: Vec<_> = meant.iter().map(|id| id.as_str()).collect();
            return Err(Diagnostic::error(Code::CliAmbiguousId, message)
                .note(format!("they are: {}", ids.join(", ")))
                .help("type more of the node's ID")
                .into());
        }
        (None, _) => {}
    }
    if uuid::Uuid::try_parse(text).is_ok() {
        return Ok(NodeId::new(text));
    }
    let key = volume.key();
    let message = format!(
        "`{}` is no whole ID of a node, and no allocation of volume {key} is on a node of that name",
        one_line(text)
    );
    let problem = Diagnostic::error(Code::CliInvalidValue, message);
    let places = volume.allocs.iter();
    let places: BTreeSet<String> = places
        .map(|alloc| format!("{} ({})", alloc.node_name, alloc.node_id))
        .collect();
    Err(if places.is_empty() {
        problem
            .note("the server shows no allocation of the volume on any node")
            .help("`nomad node status -verbose` shows the whole IDs of all nodes")
    } else {
        let places: Vec<_> = places.into_iter().collect();
        problem.help(format!("its allocations are on: {}", places.join(", ")))
    }
    .into())
}

/// Why it would do nothing, or harm: who may still use the volume there.
fn still_used(volume: &Volume, node: &NodeId) -> Option<Diagnostic> {
    let there = |holder: &Holder| {
        let alloc = holder.alloc.as_ref();
        holder.is_live() && alloc.is_some_and(|alloc| alloc.node_id == *node)
    };
    let holders: Vec<_> = Holder::of(volume).into_iter().filter(there).collect();
    let count = match holders.len() {
        0 => return None,
        1 => "1 allocation there may".to_owned(),
        count => format!("{count} allocations there may"),
    };
    let message = format!(
        "volume {} is not detached from node {node}: {count} still use it",
        volume.key()
    );
    let mut problem = Diagnostic::error(Code::VolumeInUse, message);
    for holder in holders {
        problem = problem.note(holder.to_string());
    }
    Some(problem.help(
        "stop the jobs that use it; once their allocations have ended the server detaches the volume by itself",
    ))
}
