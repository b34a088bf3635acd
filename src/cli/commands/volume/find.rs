//! The volume that an ID on the command line names. IDs are taken exactly: what changes something is
//! never done to a volume whose name only begins so.

use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::diagnostic::{Code, Diagnostic, nearest};
use crate::model::{Namespace, NamespacedId, Volume, VolumeId, VolumeSummary};
use crate::ports::{ApiError, VolumeApi, VolumeQuery};

/// The one volume of that ID.
///
/// # Errors
/// If there is none or there are several, the server cannot be read, or somebody interrupts.
pub(crate) async fn the_volume(
    context: &Context,
    api: &dyn VolumeApi,
    id: &str,
) -> Result<Volume, CliError> {
    let scope = context.namespace()?.unwrap_or_default();
    let finding = async {
        match find(api, &scope, id).await? {
            Found::One(volume) => Ok(*volume),
            Found::None => Err(missing(api, &scope, id).await.into()),
            Found::Several(namespaces) => Err(several(id, &namespaces).into()),
        }
    };
    context.interrupts.unless(finding).await?
}

/// What an ID names.
pub(crate) enum Found {
    /// Nothing.
    None,
    /// This volume.
    One(Box<Volume>),
    /// One volume in each of these namespaces.
    Several(Vec<Namespace>),
}

/// The volume of exactly that ID; where all namespaces are meant, in whichever has it.
///
/// # Errors
/// If the server cannot be read.
pub(crate) async fn find(
    api: &dyn VolumeApi,
    scope: &Namespace,
    id: &str,
) -> Result<Found, ApiError> {
    let mut namespaces = vec![scope.clone()];
    if scope.as_str() == Namespace::ALL {
        let listed = list(api, scope, Some(id)).await?;
        let exact = listed.into_iter().filter(|volume| volume.id.as_str() == id);
        namespaces = exact.map(|volume| volume.namespace).collect();
    }
    let [namespace] = namespaces.as_slice() else {
        return Ok(if namespaces.is_empty() {
            Found::None
        } else {
            Found::Several(namespaces)
        });
    };
    let key = NamespacedId::new(namespace.clone(), VolumeId::new(id));
    let reading = api.read_volume(&key).await?;
    Ok(reading.map_or(Found::None, |reading| Found::One(Box::new(reading.value))))
}

/// Volumes as the server lists them.
///
/// # Errors
/// If the server cannot be read.
pub(crate) async fn list(
    api: &dyn VolumeApi,
    namespace: &Namespace,
    prefix: Option<&str>,
) -> Result<Vec<VolumeSummary>, ApiError> {
    let query = VolumeQuery {
        namespace: namespace.clone(),
        prefix: prefix.map(str::to_owned),
        plugin: None,
    };
    let listed = api.list_volumes(&query).await?;
    Ok(listed.into_iter().map(|reading| reading.value).collect())
}

/// That there is no such volume. The others are named if they can be had; that they cannot is no
/// second problem.
pub(crate) async fn missing(api: &dyn VolumeApi, scope: &Namespace, id: &str) -> Diagnostic {
    let place = if scope.as_str() == Namespace::ALL {
        "in any namespace".to_owned()
    } else {
        format!("in namespace {scope}")
    };
    let message = format!("{} has no volume `{id}` {place}", api.name());
    let mut problem = Diagnostic::error(Code::VolumeNotFound, message);
    let everywhere = list(api, &Namespace::new(Namespace::ALL), None)
        .await
        .unwrap_or_default();
    let elsewhere = everywhere.iter().find(|volume| volume.id.as_str() == id);
    let in_scope = everywhere
        .iter()
        .filter(|volume| scope.as_str() == Namespace::ALL || volume.namespace == *scope);
    if let Some(elsewhere) = elsewhere {
        problem = problem.help(format!(
            "namespace {} has one; if it is meant, add `--namespace {}`",
            elsewhere.namespace, elsewhere.namespace
        ));
    } else if let Some(similar) = nearest(id, in_scope.map(|volume| volume.id.as_str())) {
        problem = problem.help(format!("there is a volume {similar}; is it meant?"));
    }
    problem
}

/// That an ID alone does not say which volume is meant.
pub(crate) fn several(id: &str, namespaces: &[Namespace]) -> Diagnostic {
    let names: Vec<_> = namespaces.iter().map(Namespace::as_str).collect();
    let message = format!("{} namespaces have a volume `{id}`", namespaces.len());
    Diagnostic::error(Code::CliAmbiguousId, message)
        .note(format!("they are: {}", names.join(", ")))
        .help("name the one that is meant with `--namespace`")
}
