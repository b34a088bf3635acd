//! Certificates for tests.

use std::path::Path;

use super::authority::Authority;
use super::cluster_tls::{ClusterTls, ClusterTlsFiles};
use super::role::Role;
use nomad_csi_ports::{Clock, SystemClock};

/// The region of all samples.
pub(crate) const REGION: &str = "global";

/// Returns the files of a new certificate.
pub(crate) fn files(
    authority: &Authority,
    role: Role,
    name: &str,
    clock: &dyn Clock,
) -> ClusterTlsFiles {
    let issued = authority.issue(role, name, REGION, clock).unwrap();
    ClusterTlsFiles {
        authorities: authority.certificate_file(),
        certificate: issued.certificate,
        key: issued.key,
    }
}

/// Returns a certificate of a role, valid now.
pub(crate) fn tls(authority: &Authority, role: Role, name: &str) -> ClusterTls {
    let files = files(authority, role, name, &SystemClock);
    ClusterTls::load(&files, role, REGION, &SystemClock).unwrap()
}

/// Returns a new authority.
pub(crate) fn authority(directory: &Path) -> Authority {
    Authority::create(directory, &SystemClock).unwrap()
}
