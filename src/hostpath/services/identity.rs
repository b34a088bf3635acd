//! CSI's Identity service.

use std::sync::Arc;

use tonic::{Request, Response, Status, async_trait};

use crate::error::{ProbeError, Unhealthy};
use crate::plugin::Plugin;
use crate::profile::PluginCapability;

use nomad_csi_proto as proto;
use nomad_csi_proto::identity_server::Identity;
use nomad_csi_proto::plugin_capability::{
    Service, Type, VolumeExpansion, service, volume_expansion,
};

/// The plugin's name. The domain `internal` is reserved for private use, so no other plugin has it.
/// csi-sanity requires a letter at both ends.
pub(crate) const NAME: &str = "hostpath.nomad-csi.internal";

/// Serves [`Identity`].
pub(crate) struct IdentityService(pub(crate) Arc<Plugin>);

#[async_trait]
impl Identity for IdentityService {
    async fn get_plugin_info(
        &self,
        _: Request<proto::GetPluginInfoRequest>,
    ) -> Result<Response<proto::GetPluginInfoResponse>, Status> {
        Ok(Response::new(proto::GetPluginInfoResponse {
            name: NAME.to_owned(),
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
            manifest: Default::default(),
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<proto::GetPluginCapabilitiesRequest>,
    ) -> Result<Response<proto::GetPluginCapabilitiesResponse>, Status> {
        let service = |kind: service::Type| proto::PluginCapability {
            r#type: Some(Type::Service(Service { r#type: kind.into() })),
        };
        let has = |capability| self.0.has(capability);
        let paths = self.0.profile.capabilities.has_topology;
        let services = [
            (has(PluginCapability::Controller), service::Type::ControllerService),
            (paths, service::Type::VolumeAccessibilityConstraints),
            (has(PluginCapability::Groups), service::Type::GroupControllerService),
            (has(PluginCapability::Metadata), service::Type::SnapshotMetadataService),
            (
                has(PluginCapability::SnapshotTopology),
                service::Type::SnapshotAccessibilityConstraints,
            ),
        ];
        let services = services.into_iter().filter(|(has, _)| *has).map(|(_, kind)| service(kind));
        let expansion = self.expansion().await?.map(|kind| proto::PluginCapability {
            r#type: Some(Type::VolumeExpansion(VolumeExpansion { r#type: kind.into() })),
        });
        Ok(Response::new(proto::GetPluginCapabilitiesResponse {
            capabilities: services.chain(expansion).collect(),
        }))
    }

    /// Reports ready as soon as the plugin listens, and unhealthy if its directory or catalogue
    /// cannot be used. A missing mount privilege is not a failure: the plugin can still create
    /// volumes.
    async fn probe(
        &self,
        _: Request<proto::ProbeRequest>,
    ) -> Result<Response<proto::ProbeResponse>, Status> {
        let check = self.0.call(|plugin| {
            let catalog = plugin.catalog.volume("").map(drop);
            catalog.map_err(|error| Unhealthy(error.to_string()))?;
            let space = plugin.directories.space().map(drop);
            Ok::<_, ProbeError>(space.map_err(|error| Unhealthy(error.to_string()))?)
        });
        check.await?;
        Ok(Response::new(proto::ProbeResponse { ready: Some(true) }))
    }
}

impl IdentityService {
    /// ONLINE promises that every volume can grow while it is in use. If one file system cannot,
    /// the plugin reports OFFLINE, which requires the controller.
    async fn expansion(&self) -> Result<Option<volume_expansion::Type>, Status> {
        let features = self.0.call(|plugin| Ok::<_, ProbeError>(plugin.host.storage.features()));
        let is_online = features.await?.supports_online_expansion();
        let controller =
            self.0.has(PluginCapability::Controller) && self.0.has(PluginCapability::Expand);
        let node = self.0.has(PluginCapability::Node) && self.0.has(PluginCapability::NodeExpand);
        Ok(match (is_online, controller) {
            (true, _) => (controller || node).then_some(volume_expansion::Type::Online),
            (false, true) => Some(volume_expansion::Type::Offline),
            (false, false) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_valid_for_csi_and_csi_sanity() {
        let is_letter = |at: Option<char>| at.is_some_and(|c| c.is_ascii_alphabetic());
        assert!(NAME.len() <= 63);
        assert!(is_letter(NAME.chars().next()) && is_letter(NAME.chars().last()));
        assert!(NAME.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.')));
    }
}
