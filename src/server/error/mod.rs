//! Why the server says no, and how it says so: one enum for everything that an operation or a request
//! can fail with, and one place that gives each its code, its HTTP status, Nomad's own text, and a
//! sentence for people.

mod plugin;
mod request;
mod server_error;
mod snapshot;
mod variable;

pub use plugin::{Aftermath, Object, Operation, PluginFailure};
pub use request::RequestError;
pub use server_error::{CopySource, NotSupported, ServerError, UpdateRequest};
pub use snapshot::SnapshotError;
pub use variable::VariableError;
