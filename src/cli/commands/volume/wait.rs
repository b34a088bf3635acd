//! `volume wait`: waits until a volume can be used, is used by nobody, or is gone.

use super::find::{Found, find, missing, several};
use crate::cli::args::WaitArguments;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::one_line;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{Namespace, NamespacedId, VolumeId};
use crate::nomad::NomadClient;
use crate::plan::Awaited;
use crate::reconcile::{Wait, Waited, wait};

/// Waits.
///
/// # Errors
/// If there is no such volume, the server cannot be asked, the time is over, or somebody interrupts.
pub(crate) async fn run(context: &Context, arguments: &WaitArguments) -> Result<Exit, CliError> {
    context
        .with_client(async |client| {
            let waiting = until(context, client, arguments);
            context.interrupts.unless(waiting).await?
        })
        .await
}

async fn until(
    context: &Context,
    client: &NomadClient,
    arguments: &WaitArguments,
) -> Result<Exit, CliError> {
    let WaitArguments { id, awaited, .. } = arguments;
    let scope = context.namespace()?.unwrap_or_default();
    let Some(volume) = named(client, &scope, id, *awaited).await? else {
        return Ok(reached(context, id, *awaited));
    };
    let shown = one_line(&volume.to_string());
    let order = Wait {
        volume,
        awaited: *awaited,
        patience: arguments.timeout.0,
    };
    let mut tell = |why: &str| {
        let line = format!("volume {shown}: not {awaited} yet: {}", one_line(why));
        context.printer.talk(&line);
    };
    match wait(client, &order, &mut tell).await? {
        Waited::Reached => Ok(reached(context, &order.volume.to_string(), *awaited)),
        Waited::Gone => Err(missing(client, &scope, id).await.into()),
        Waited::TooLong(why) => Err(CliError::blocked([too_long(arguments, &order, &why)])),
    }
}

fn reached(context: &Context, volume: &str, awaited: Awaited) -> Exit {
    let line = format!("volume {}: {awaited}", one_line(volume));
    context.printer.talk(&line);
    Exit::Done
}

/// Where all namespaces are meant, the one that has it; `None` if nowhere is such a volume, and that
/// is what was waited for.
async fn named(
    client: &NomadClient,
    scope: &Namespace,
    id: &str,
    awaited: Awaited,
) -> Result<Option<NamespacedId>, CliError> {
    if scope.as_str() != Namespace::ALL {
        return Ok(Some(NamespacedId::new(scope.clone(), VolumeId::new(id))));
    }
    match find(client, scope, id).await? {
        Found::One(volume) => Ok(Some(volume.key())),
        Found::None if awaited == Awaited::Absent => Ok(None),
        Found::None => Err(missing(client, scope, id).await.into()),
        Found::Several(namespaces) => Err(several(id, &namespaces).into()),
    }
}

fn too_long(arguments: &WaitArguments, order: &Wait, why: &str) -> Diagnostic {
    let message = format!(
        "volume {} is not {} after {}",
        order.volume, order.awaited, arguments.timeout
    );
    let help = match order.awaited {
        Awaited::Schedulable => {
            "see what the plugin lacks with `nomad-csi plugin status`, or wait longer with `--timeout`"
        }
        Awaited::Unclaimed => "stop the jobs that use it; `nomad-csi volume status` shows them",
        Awaited::Absent => "`nomad-csi volume delete` or `volume deregister` removes it",
    };
    Diagnostic::error(Code::VolumeNotYet, message)
        .note(why)
        .help(help)
}
