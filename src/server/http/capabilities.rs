//! The capabilities of policies that endpoints require: one of each list is enough.
//!
//! Those for volumes are the ones by which `nomad-csi auth check` predicts what a server refuses.

use nomad_csi_plan::AclVolumeCapability;

pub(super) const LIST_VOLUMES: &[&str] = AclVolumeCapability::List.granted_by();
pub(super) const READ_VOLUME: &[&str] = AclVolumeCapability::Read.granted_by();
pub(super) const WRITE_VOLUME: &[&str] = AclVolumeCapability::Write.granted_by();
pub(super) const MOUNT_VOLUME: &[&str] = AclVolumeCapability::Mount.granted_by();
pub(super) const LIST_JOBS: &[&str] = &["list-jobs"];
pub(super) const READ_JOB: &[&str] = AclVolumeCapability::ReadJobs.granted_by();
pub(super) const SUBMIT_JOB: &[&str] = &["submit-job"];
pub(super) const VALIDATE_JOB: &[&str] = &["read-job", "submit-job"];
pub(super) const ALLOC_LIFECYCLE: &[&str] = &["alloc-lifecycle"];
pub(super) const READ_FILES: &[&str] = &["read-fs"];
pub(super) const READ_LOGS: &[&str] = &["read-logs", "read-fs"];
