//! The specifications that a command works with, and where they come from.

use std::path::{Path, PathBuf};

use nomad_csi_model::SetName;
use nomad_csi_model::diagnostic::{SourceMap, Span};
use nomad_csi_plan::{AclOperation, LedgerLocation, RequiredPermissions};
use nomad_csi_spec::{VariableValue, VolumeSpec};

/// The specifications that a command works with.
#[derive(Debug)]
pub struct Specifications {
    /// The volumes, in the order of the files.
    pub volumes: Vec<VolumeSpec>,
    /// The texts of the files.
    pub sources: SourceMap,
    /// The number of files.
    pub file_count: usize,
    /// The set that owns the volumes, if the files or the command line name one.
    pub set: Option<SetName>,
    /// The directory that file names are relative to.
    pub base_directory: PathBuf,
    /// The variables that have values.
    pub variables: Vec<VariableValue>,
}

impl Specifications {
    /// Returns the permissions that planning them needs, with a ledger in variables.
    pub fn permissions_to_plan(&self, ledger: Option<&LedgerLocation>) -> RequiredPermissions {
        let mut needs = self.permissions_for(&[AclOperation::Observe]);
        if let Some(location) = ledger {
            needs.add_ledger_reading(location);
        }
        needs
    }

    /// Returns the permissions that planning and applying them needs, with a ledger in variables.
    pub fn permissions_to_apply(&self, ledger: Option<&LedgerLocation>) -> RequiredPermissions {
        let mut needs = self.permissions_for(&[AclOperation::Observe, AclOperation::Write]);
        if let Some(location) = ledger {
            needs.add_ledger(location);
        }
        needs
    }

    fn permissions_for(&self, operations: &[AclOperation]) -> RequiredPermissions {
        let mut needs = RequiredPermissions::default();
        for spec in &self.volumes {
            for operation in operations {
                needs.add(*operation, &spec.request.namespace);
            }
            needs.add_secrets(&spec.request);
        }
        needs.add_version();
        needs
    }

    /// Returns the directory that relative paths at a place start from: that of the file, or the base directory for
    /// standard input.
    pub fn directory_at(&self, place: Span) -> PathBuf {
        let name = Path::new(self.sources.name(place.source));
        let parent = name.parent().unwrap_or(Path::new(""));
        self.base_directory.join(parent)
    }
}
