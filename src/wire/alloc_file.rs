//! The files of an allocation.

use serde::{Deserialize, Serialize};

/// A file or a directory of an allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocFileDocument {
    /// The kind of content, if the server knows it.
    pub content_type: String,
    /// The kind and the permissions, such as `-rw-r--r--`.
    pub file_mode: String,
    /// True for a directory.
    pub is_dir: bool,
    /// When it was changed; `None` if that is not known.
    pub mod_time: Option<String>,
    /// The name.
    pub name: String,
    /// The size in bytes.
    pub size: u64,
}
