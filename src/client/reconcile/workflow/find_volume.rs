//! Finds the volume that an ID on the command line names. IDs match exactly: a prefix could name the
//! wrong volume.

use super::context::WorkflowContext;
use super::error::WorkflowError;
use crate::ports::{ApiError, VolumeQuery, VolumeReader};
use crate::reconcile::volume_list::list_all_volumes;
use nomad_csi_model::diagnostic::{Code, Diagnostic, closest_match};
use nomad_csi_model::{Namespace, NamespacedId, Volume, VolumeId, VolumeSummary, shell_quoted};

/// The object that an ID names.
pub(super) enum VolumeLookup {
    /// No volume.
    NotFound,
    /// This volume.
    Found(Box<Volume>),
    /// A volume in each of these namespaces.
    Ambiguous(Vec<Namespace>),
}

/// Returns the volume of exactly this ID. `scope` may be all namespaces.
///
/// # Errors
/// If no volume or several have the ID, the server cannot be read, or the user interrupts.
pub async fn find_volume(
    context: &WorkflowContext<'_>,
    scope: &Namespace,
    id: &str,
) -> Result<Volume, WorkflowError> {
    let finding = async {
        match look_up_volume(context.api, scope, id).await? {
            VolumeLookup::Found(volume) => Ok(*volume),
            VolumeLookup::NotFound => Err(volume_not_found(context.api, scope, id).await.into()),
            VolumeLookup::Ambiguous(namespaces) => Err(ambiguous_volume(id, &namespaces).into()),
        }
    };
    context.unless_interrupted(finding).await?
}

/// Looks up the volume of exactly this ID.
///
/// # Errors
/// If the server cannot be read.
pub(super) async fn look_up_volume(
    reader: &(impl VolumeReader + ?Sized),
    scope: &Namespace,
    id: &str,
) -> Result<VolumeLookup, ApiError> {
    let mut namespaces = vec![scope.clone()];
    if scope.as_str() == Namespace::ALL {
        let query = VolumeQuery {
            namespace: scope.clone(),
            prefix: Some(id.to_owned()),
            plugin: None,
            filter: None,
        };
        let listed = reader.list_volumes(&query).await?;
        let listed = listed.into_iter().map(|reading| reading.value);
        let exact = listed.filter(|volume| volume.id.as_str() == id);
        namespaces = exact.map(|volume| volume.namespace).collect();
    }
    let [namespace] = namespaces.as_slice() else {
        return Ok(if namespaces.is_empty() {
            VolumeLookup::NotFound
        } else {
            VolumeLookup::Ambiguous(namespaces)
        });
    };
    let key = NamespacedId::new(namespace.clone(), VolumeId::new(id));
    let reading = reader.read_volume(&key).await?;
    Ok(reading
        .map_or(VolumeLookup::NotFound, |reading| VolumeLookup::Found(Box::new(reading.value))))
}

/// Explains that no volume has the ID. Suggests another one if the volumes can be listed.
pub(super) async fn volume_not_found(
    reader: &(impl VolumeReader + ?Sized),
    scope: &Namespace,
    id: &str,
) -> Diagnostic {
    let problem = not_found(reader.name(), scope, id);
    let all = list_all_volumes(reader).await.unwrap_or_default();
    let in_scope =
        all.iter().filter(|volume| scope.as_str() == Namespace::ALL || volume.namespace == *scope);
    if let Some(elsewhere) = namespace_with(&all, id) {
        return problem.help(format!(
            "namespace `{elsewhere}` has a volume of this ID; to use it, add `--namespace {}`",
            shell_quoted(elsewhere)
        ));
    }
    match closest_match(id, in_scope.map(|volume| volume.id.as_str())) {
        Some(similar) => problem.help(format!("did you mean volume `{similar}`?")),
        None => problem,
    }
}

/// Explains that no volume to remove has the ID. Suggests no other one, because the command would remove
/// its data.
pub(super) async fn removed_volume_not_found(
    reader: &(impl VolumeReader + ?Sized),
    scope: &Namespace,
    id: &str,
) -> Diagnostic {
    let problem = not_found(reader.name(), scope, id);
    let all = list_all_volumes(reader).await.unwrap_or_default();
    let problem = match namespace_with(&all, id) {
        Some(elsewhere) => problem.note(format!("namespace `{elsewhere}` has a volume of this ID")),
        None => problem,
    };
    problem.help("use `--if-exists` to ignore volumes that do not exist")
}

fn not_found(server: &str, scope: &Namespace, id: &str) -> Diagnostic {
    let place = if scope.as_str() == Namespace::ALL {
        "in any namespace".to_owned()
    } else {
        format!("in namespace `{scope}`")
    };
    let message = format!("{server} has no volume `{id}` {place}");
    Diagnostic::error(Code::VolumeNotFound, message)
}

fn namespace_with<'v>(volumes: &'v [VolumeSummary], id: &str) -> Option<&'v Namespace> {
    let found = volumes.iter().find(|volume| volume.id.as_str() == id);
    found.map(|volume| &volume.namespace)
}

/// Explains that several namespaces have a volume of the ID.
pub(super) fn ambiguous_volume(id: &str, namespaces: &[Namespace]) -> Diagnostic {
    let names: Vec<_> = namespaces.iter().map(Namespace::as_str).collect();
    let message =
        format!("cannot select volume `{id}`: {} namespaces have one of this ID", namespaces.len());
    Diagnostic::error(Code::CliAmbiguousId, message)
        .note(format!("the namespaces are: {}", names.join(", ")))
        .help("select one with `--namespace`")
}
