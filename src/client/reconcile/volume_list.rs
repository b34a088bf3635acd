//! Lists of volumes: every volume that the token can see, and whole volumes.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::ports::{ApiError, VolumeQuery, VolumeReader};
use nomad_csi_model::{Namespace, NamespacedId, Volume, VolumeSummary};

/// Lists every volume that the token can see, in all namespaces.
///
/// # Errors
/// If the server cannot be read.
pub(super) async fn list_all_volumes(
    reader: &(impl VolumeReader + ?Sized),
) -> Result<Vec<VolumeSummary>, ApiError> {
    let everywhere = VolumeQuery::of_namespace(Namespace::new(Namespace::ALL));
    let listed = reader.list_volumes(&everywhere).await?;
    Ok(listed.into_iter().map(|reading| reading.value).collect())
}

/// Lists the volumes whose data has this external ID, as far as the token sees: for one without external ID, that is its ID.
/// An older server lists others too, and every server does if the external ID cannot be written in a filter.
///
/// # Errors
/// If the server cannot be read.
pub(super) async fn list_volumes_with_data(
    reader: &(impl VolumeReader + ?Sized),
    external_id: &str,
) -> Result<Vec<VolumeSummary>, ApiError> {
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '`');
    let filter = external_id
        .chars()
        .all(is_plain)
        .then(|| format!("ExternalID == \"{external_id}\" or ID == \"{external_id}\""));
    let query = VolumeQuery { filter, ..VolumeQuery::of_namespace(Namespace::new(Namespace::ALL)) };
    let listed = reader.list_volumes(&query).await?;
    Ok(listed.into_iter().map(|reading| reading.value).collect())
}

/// Reads the whole of every volume of a list, `parallelism` at a time. One that was removed in the meantime is left out.
///
/// # Errors
/// If the server cannot be read.
pub(super) async fn read_listed_volumes(
    reader: &(impl VolumeReader + ?Sized),
    query: &VolumeQuery,
    parallelism: usize,
) -> Result<Vec<Volume>, ApiError> {
    let listed = reader.list_volumes(query).await?;
    let reads = listed.into_iter().map(async |listed| {
        let key = NamespacedId::new(listed.value.namespace, listed.value.id);
        reader.read_volume(&key).await
    });
    let found = stream::iter(reads).buffered(parallelism.max(1));
    let found: Vec<_> = found.try_collect().await?;
    Ok(found.into_iter().flatten().map(|one| one.value).collect())
}
