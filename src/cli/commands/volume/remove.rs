//! `volume delete` and `volume deregister`.
//!
//! Nomad deletes the data before it asks whether anybody uses it (`nomad-http-api` 3.7), so
//! everything is looked at before anything is sent: what exists, who claims it, whose data it shares,
//! which sets keep it. If one volume may not be removed, none is. Then somebody agrees; then each
//! volume and whoever shares its data is looked at once more, and it is left alone if that has changed;
//! then it goes. IDs are taken exactly: a prefix that hits the wrong volume cannot be undone.

use super::find::{Found, find, list, missing, several};
use super::owned::ask_sets;
use crate::cli::args::{Delete, Deregister, Hidden, LedgerPlace};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::one_line;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap};
use crate::model::{Namespace, NamespacedId, Secrets, Volume, VolumeSummary};
use crate::nomad::NomadClient;
use crate::plan::{Pin, Removal, forced_claims, removal_problems};
use crate::ports::{ApiError, VolumeApi};

/// What a person asked for.
struct Order<'a> {
    ids: &'a [String],
    removal: Removal,
    yes: bool,
    if_exists: bool,
    secrets: Secrets,
    place: &'a LedgerPlace,
}

/// `volume deregister`.
///
/// # Errors
/// If one of the volumes may not be removed, nobody agrees, or the server says no.
pub(crate) async fn deregister(
    context: &Context,
    arguments: &Deregister,
) -> Result<Exit, CliError> {
    let order = Order {
        ids: &arguments.ids,
        removal: Removal::Deregister {
            force: arguments.force,
        },
        yes: arguments.yes,
        if_exists: arguments.if_exists,
        secrets: Secrets::default(),
        place: &arguments.place,
    };
    context
        .with_client(async |client| remove(context, client, &order).await)
        .await
}

/// `volume delete`.
///
/// # Errors
/// If one of the volumes may not be removed, nobody agrees, or the server says no.
pub(crate) async fn delete(context: &Context, arguments: &Delete) -> Result<Exit, CliError> {
    let order = Order {
        ids: &arguments.ids,
        removal: Removal::Delete,
        yes: arguments.yes,
        if_exists: arguments.if_exists,
        secrets: secrets(&arguments.secrets)?,
        place: &arguments.place,
    };
    context
        .with_client(async |client| remove(context, client, &order).await)
        .await
}

/// Nomad takes them in a header, `k=v,k=w`, in which nothing can be escaped (`nomad-http-api` 2.4).
fn secrets(pairs: &[Hidden]) -> Result<Secrets, CliError> {
    let mut secrets = Secrets::default();
    for pair in pairs {
        let Some((key, value)) = pair.0.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(
                Diagnostic::error(Code::CliInvalidValue, "a `--secret` has no key")
                    .help("write `--secret KEY=VALUE`")
                    .into(),
            );
        };
        if key.contains(',') || value.contains(',') {
            let message = format!("the secret {} holds a comma", one_line(key));
            return Err(Diagnostic::error(Code::CliInvalidValue, message)
                .note("secrets travel in a header that Nomad splits at commas, so the plugin would get something else")
                .help("register the volume with its secrets (`volume register -f`), then delete it without `--secret`: the stored ones are used")
                .into());
        }
        secrets.insert(key, value);
    }
    Ok(secrets)
}

async fn remove(context: &Context, api: &NomadClient, order: &Order<'_>) -> Result<Exit, CliError> {
    let looking = find_all(context, api, order);
    let volumes = context.interrupts.unless(looking).await??;
    check(context, api, order, &volumes).await?;
    ask_sets(context, api, order.place, &volumes).await?;
    for volume in &volumes {
        approve(context, order, volume).await?;
    }
    let mut exit = Exit::Done;
    for volume in &volumes {
        if context.interrupts.stop().is_cancelled() {
            context.printer.talk(&format!(
                "volume {}: not begun",
                one_line(&volume.key().to_string())
            ));
            exit = exit.max(Exit::Interrupted);
            continue;
        }
        if let Err(error) = remove_one(context, api, order, volume).await {
            context.report(&error.diagnostics, &SourceMap::default());
            exit = exit.max(error.exit);
        }
    }
    Ok(exit)
}

/// What is said of a volume that is not there, besides.
const IF_EXISTS: &str = "if it may have been removed before, `--if-exists` makes that no error";

async fn find_all(
    context: &Context,
    api: &dyn VolumeApi,
    order: &Order<'_>,
) -> Result<Vec<Volume>, CliError> {
    let scope = context.namespace()?.unwrap_or_default();
    let mut volumes: Vec<Volume> = vec![];
    let mut problems = vec![];
    for id in order.ids {
        match find(api, &scope, id).await? {
            Found::One(volume) if volumes.iter().any(|other| other.key() == volume.key()) => {}
            Found::One(volume) => volumes.push(*volume),
            Found::None if order.if_exists => {
                context.printer.talk(&format!(
                    "volume {}: does not exist, nothing to do",
                    one_line(id)
                ));
            }
            Found::None => problems.push(missing(api, &scope, id).await.help(IF_EXISTS)),
            Found::Several(namespaces) => problems.push(several(id, &namespaces)),
        }
    }
    if problems.is_empty() {
        return Ok(volumes);
    }
    Err(problems.into_iter().collect::<Diagnostics>().into())
}

/// Every volume that can be seen, if it matters who has the same data.
async fn others(api: &dyn VolumeApi, order: &Order<'_>) -> Result<Vec<VolumeSummary>, ApiError> {
    match order.removal {
        Removal::Delete => list(api, &Namespace::new(Namespace::ALL), None).await,
        Removal::Deregister { .. } => Ok(vec![]),
    }
}

/// Refuses everything if one may not be removed. What shares a volume's data is searched in all
/// namespaces; if that search fails, nothing is deleted.
async fn check(
    context: &Context,
    api: &dyn VolumeApi,
    order: &Order<'_>,
    volumes: &[Volume],
) -> Result<(), CliError> {
    if volumes.is_empty() {
        return Ok(());
    }
    let others = context.interrupts.unless(others(api, order)).await??;
    let problems: Vec<Diagnostic> = volumes
        .iter()
        .flat_map(|volume| removal_problems(volume, order.removal, &others))
        .collect();
    if !problems.is_empty() {
        return Err(CliError::blocked(problems));
    }
    if let Removal::Deregister { force: true } = order.removal {
        let forced = volumes.iter().filter_map(forced_claims);
        context.report(&forced.collect(), &SourceMap::default());
    }
    Ok(())
}

async fn approve(context: &Context, order: &Order<'_>, volume: &Volume) -> Result<(), CliError> {
    if order.yes {
        return Ok(());
    }
    let (verb, fate) = match order.removal {
        Removal::Delete => ("delete", "its data is destroyed in the storage provider"),
        Removal::Deregister { .. } => ("deregister", "its data stays in the storage provider"),
    };
    let what = description(volume);
    if !context.stdin.is_terminal {
        let message = format!("nothing was removed: to {verb} {what} somebody has to agree");
        return Err(CliError::approval_needed(
            Diagnostic::error(Code::CliApprovalNeeded, message)
                .note("standard input is no terminal, so nobody could be asked")
                .help(format!("run: {}", context.command_with_yes())),
        ));
    }
    let id = volume.id.as_str();
    let agreed = match order.removal {
        Removal::Delete => {
            let question = format!("{what}: {fate}.\nType {} to delete it: ", one_line(id));
            context.answer(&question).await? == id
        }
        Removal::Deregister { .. } => {
            let question = format!("Deregister {what}? {fate} [y/N] ");
            matches!(context.answer(&question).await?.as_str(), "y" | "Y" | "yes")
        }
    };
    if agreed {
        return Ok(());
    }
    Err(CliError::approval_needed(Diagnostic::error(
        Code::CliApprovalNeeded,
        format!(
            "nothing was removed: nobody agreed to {verb} volume {}",
            volume.key()
        ),
    )))
}

/// Enough to know that it is the right one.
fn description(volume: &Volume) -> String {
    let size = if volume.capacity.is_zero() {
        String::new()
    } else {
        format!(", {}", volume.capacity.binary())
    };
    one_line(&format!(
        "volume {} in namespace {} (plugin {}, external ID {}{size})",
        volume.id,
        volume.namespace,
        volume.plugin_id,
        volume.remote_id()
    ))
}

async fn remove_one(
    context: &Context,
    api: &dyn VolumeApi,
    order: &Order<'_>,
    volume: &Volume,
) -> Result<(), CliError> {
    let key = volume.key();
    let shown = one_line(&key.to_string());
    let done = match order.removal {
        Removal::Delete => "deleted",
        Removal::Deregister { .. } => "deregistered",
    };
    let now = api.read_volume(&key).await?.map(|reading| reading.value);
    let Some(now) = now else {
        context
            .printer
            .talk(&format!("volume {shown}: is gone already"));
        return Ok(());
    };
    if let Some(why) = Pin::of(Some(volume)).broken_by(Some(&now)) {
        let message =
            format!("volume {key} was left as it is: it has changed since it was looked at");
        return Err(CliError::blocked([Diagnostic::error(
            Code::PlanStale,
            message,
        )
        .note(why)
        .help(
            "look at it with `nomad-csi volume status`, then run the command again",
        )]));
    }
    // Somebody may have registered its data once more while a person was asked.
    let problems = removal_problems(&now, order.removal, &others(api, order).await?);
    if !problems.is_empty() {
        return Err(CliError::blocked(problems));
    }
    let sent = match order.removal {
        Removal::Delete => api.delete_volume(&key, &order.secrets).await,
        Removal::Deregister { force } => api.deregister_volume(&key, force).await,
    };
    match sent {
        Ok(()) => context.printer.talk(&format!("volume {shown}: {done}")),
        Err(error) if error.code == Code::VolumeNotFound => {
            context
                .printer
                .talk(&format!("volume {shown}: is gone already"));
        }
        Err(error) if error.code == Code::ApiOutcomeUnknown => {
            find_out(context, api, &key, done, error).await?;
        }
        Err(error) => return Err(refused(error)),
    }
    Ok(())
}

/// A server that refuses because somebody claimed the volume meanwhile blocks; it does not fail.
fn refused(error: ApiError) -> CliError {
    if error.code == Code::VolumeInUse {
        return CliError::blocked([error.diagnostic()]);
    }
    error.into()
}

async fn find_out(
    context: &Context,
    api: &dyn VolumeApi,
    key: &NamespacedId,
    done: &str,
    error: ApiError,
) -> Result<(), CliError> {
    let shown = one_line(&key.to_string());
    match api.read_volume(key).await {
        Ok(None) => {
            context.printer.talk(&format!(
                "volume {shown}: {done} (the answer was lost, and it is gone)"
            ));
            Ok(())
        }
        Ok(Some(_)) => Err(error
            .diagnostic()
            .note("the server still has the volume; it may still be at work")
            .into()),
        Err(_) => Err(error
            .diagnostic()
            .note("looking for the volume failed too")
            .into()),
    }
}
