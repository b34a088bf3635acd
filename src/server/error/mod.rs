//! The errors of operations and requests.
//!
//! [`ServerError`] covers everything that can fail. It gives each error its code, its HTTP status,
//! Nomad's exact text, and a message and help for people.

mod acl;
mod claim;
mod job;
mod multi_error;
mod namespace;
mod plugin;
mod request;
mod server_error;
mod snapshot;
mod update_origin;
mod variable;

pub use acl::AclError;
pub use claim::{ClaimError, ClaimWriter};
pub use job::JobError;
pub(crate) use multi_error::shortened;
pub use namespace::{LeftInstance, NamespaceError, NamespaceUser};
pub use plugin::{CallDescription, CallTarget, ControllerOperation, PluginFailure, ResidualState};
pub use request::RequestError;
pub use server_error::{CopySource, ServerError, UnsupportedOperation};
pub use snapshot::SnapshotError;
pub use update_origin::UpdateOrigin;
pub use variable::VariableError;
