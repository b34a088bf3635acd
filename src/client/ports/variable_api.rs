//! Nomad variables, as far as specifications refer to them.

use async_trait::async_trait;

use super::volume_api::ApiError;
use nomad_csi_model::{Namespace, Secrets};

/// Reads variables.
#[async_trait]
pub trait VariableReader: Send + Sync {
    /// Returns the items of a variable; `None` if it does not exist.
    async fn variable_items(
        &self,
        namespace: &Namespace,
        path: &str,
    ) -> Result<Option<Secrets>, ApiError>;
}
