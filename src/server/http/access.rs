//! What the client of a request may do now.
//!
//! Rights are looked up whenever they are used: a query that has waited for an hour shows what its token may see then.

use std::collections::BTreeSet;

use super::request::IncomingRequest;
use crate::acl::Rights;
use crate::error::{AclError, ServerError};
use nomad_csi_claims::state::State;
use nomad_csi_model::{Job, JobVolume, Namespace};

/// The namespaces whose objects a list shows: the requested one or all, of those where the client may see them.
pub(super) struct NamespaceScope {
    requested: Namespace,
    rights: Rights,
    capabilities: &'static [&'static str],
}

impl NamespaceScope {
    /// Returns whether it has a namespace.
    pub(super) fn contains(&self, namespace: &Namespace) -> bool {
        let is_meant = self.requested.as_str() == Namespace::ALL || self.requested == *namespace;
        is_meant && self.rights.has_any(namespace, self.capabilities)
    }

    /// Returns those of all namespaces that it has; `None` if the rights leave none out.
    pub(super) fn among(&self, state: &State) -> Option<BTreeSet<Namespace>> {
        match &self.rights {
            Rights::Everything => None,
            Rights::Granted(_) => {
                let names = state.namespaces().into_iter().map(|record| record.name.clone());
                Some(names.filter(|name| self.contains(name)).collect())
            }
        }
    }
}

impl IncomingRequest {
    /// Returns what the client may do now.
    ///
    /// # Errors
    /// If the token is not known any more.
    pub(super) fn rights(&self) -> Result<Rights, ServerError> {
        Ok(self.credentials.rights(&self.services)?)
    }

    /// Refuses the request without one of these capabilities in a namespace.
    ///
    /// # Errors
    /// If the client has none of them.
    pub(super) fn require(
        &self,
        namespace: &Namespace,
        capabilities: &[&str],
    ) -> Result<(), ServerError> {
        match self.rights()?.has_any(namespace, capabilities) {
            true => Ok(()),
            false => Err(self.denied(format!("{} in namespace {namespace}", words(capabilities)))),
        }
    }

    /// Refuses a job that the client may not run: it needs its namespace, its volumes and the plugins that it serves.
    ///
    /// # Errors
    /// If a capability is missing.
    pub(super) fn require_job(&self, job: &Job) -> Result<(), ServerError> {
        self.require(&job.namespace, &["submit-job"])?;
        let volumes = job.groups.iter().flat_map(|group| group.volumes.values());
        for volume in volumes.clone().filter(|volume| !volume.is_csi()) {
            let name = volume.source.as_str();
            if !self.rights()?.mounts_host_volume(name, volume.read_only) {
                return Err(self.denied(format!(
                    "host_volume {name} {}",
                    if volume.read_only { "read" } else { "write" }
                )));
            }
        }
        if volumes.into_iter().any(JobVolume::is_csi) {
            self.require(&job.namespace, &["csi-mount-volume"])?;
            if !self.rights()?.reads_plugins() {
                return Err(self.denied("plugin read, because the job has CSI volumes".to_owned()));
            }
        }
        match job.served_plugins().next() {
            Some(_) => self.require(&job.namespace, &["csi-register-plugin"]),
            None => Ok(()),
        }
    }

    /// Returns the namespaces whose objects a list shows.
    ///
    /// # Errors
    /// If the token is not known any more.
    pub(super) fn scope(
        &self,
        capabilities: &'static [&'static str],
    ) -> Result<NamespaceScope, ServerError> {
        let requested = self.parameters.namespace_or_default();
        self.scope_in(requested, capabilities)
    }

    /// Returns the same for a namespace that stands elsewhere in the request.
    ///
    /// # Errors
    /// As for [`Self::scope`].
    pub(super) fn scope_in(
        &self,
        requested: Namespace,
        capabilities: &'static [&'static str],
    ) -> Result<NamespaceScope, ServerError> {
        Ok(NamespaceScope { requested, rights: self.rights()?, capabilities })
    }

    /// The error of a request that needs more than its client has.
    pub(super) fn denied(&self, needs: String) -> ServerError {
        AclError::Denied { needs, has_token: self.credentials.has_token() }.into()
    }
}

/// Names capabilities of which one is needed.
pub(super) fn words(capabilities: &[&str]) -> String {
    capabilities.join(" or ")
}
