//! Every volume that the token can see, in all namespaces.

use crate::model::{Namespace, VolumeSummary};
use crate::ports::{ApiError, VolumeQuery, VolumeReader};

/// Lists every volume that the token can see, in all namespaces.
///
/// # Errors
/// If the server cannot be read.
pub async fn list_all_volumes(
    reader: &(impl VolumeReader + ?Sized),
) -> Result<Vec<VolumeSummary>, ApiError> {
    let everywhere = VolumeQuery {
        namespace: Namespace::new(Namespace::ALL),
        prefix: None,
        plugin: None,
        filter: None,
    };
    let listed = reader.list_volumes(&everywhere).await?;
    Ok(listed.into_iter().map(|reading| reading.value).collect())
}
