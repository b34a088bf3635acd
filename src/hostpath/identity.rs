//! CSI's Identity service.

use std::sync::Arc;

use tonic::{Request, Response, Status, async_trait};

use super::abilities::Ability;
use super::error::{ProbeError, Unwell};
use super::plugin::Plugin;
use crate::csi::proto;
use crate::csi::proto::identity_server::Identity;
use crate::csi::proto::plugin_capability::{
    Service, Type, VolumeExpansion, service, volume_expansion,
};

/// The provider's name, under the top-level domain that is reserved for private use, so that it is
/// nobody else's; letters at both ends, as csi-sanity wants it (`csi-spec` 5.1).
pub(super) const NAME: &str = "hostpath.nomad-csi.internal";

/// Serves [`Identity`].
pub(super) struct IdentityService(pub(super) Arc<Plugin>);

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
            r#type: Some(Type::Service(Service {
                r#type: kind.into(),
            })),
        };
        let has = |ability| self.0.has(ability);
        let places = self.0.play.abilities.has_topology;
        let services = [
            (has(Ability::Controller), service::Type::ControllerService),
            (places, service::Type::VolumeAccessibilityConstraints),
            (has(Ability::Groups), service::Type::GroupControllerService),
            (
                has(Ability::Metadata),
                service::Type::SnapshotMetadataService,
            ),
        ];
        let services = services
            .into_iter()
            .filter(|(has, _)| *has)
            .map(|(_, kind)| service(kind));
        let expansion = self.expansion().await?.map(|kind| proto::PluginCapability {
            r#type: Some(Type::VolumeExpansion(VolumeExpansion {
                r#type: kind.into(),
            })),
        });
        Ok(Response::new(proto::GetPluginCapabilitiesResponse {
            capabilities: services.chain(expansion).collect(),
        }))
    }

    /// Ready as soon as it listens; unwell if its directory or its catalogue cannot be used. Not
    /// being allowed to mount is no illness: volumes are made all the same.
    async fn probe(
        &self,
        _: Request<proto::ProbeRequest>,
    ) -> Result<Response<proto::ProbeResponse>, Status> {
        let check = self.0.blocking(|plugin| {
            let catalog = plugin.catalog.volume("").map(drop);
            catalog.map_err(|error| Unwell(error.to_string()))?;
            let room = plugin.directories.room().map(drop);
            Ok::<_, ProbeError>(room.map_err(|error| Unwell(error.to_string()))?)
        });
        check.await?;
        Ok(Response::new(proto::ProbeResponse { ready: Some(true) }))
    }
}

impl IdentityService {
    /// ONLINE promises that *every* volume grows while it is used. Where one file system does not,
    /// the promise is OFFLINE, which has to be the controller's (`csi-spec` 5.1.1).
    async fn expansion(&self) -> Result<Option<volume_expansion::Type>, Status> {
        let offers = self
            .0
            .blocking(|plugin| Ok::<_, ProbeError>(plugin.host.storage.offers()));
        let is_online = offers.await?.grows_in_use();
        let controller = self.0.has(Ability::Controller) && self.0.has(Ability::Expand);
        let node = self.0.has(Ability::Node) && self.0.has(Ability::NodeExpand);
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
    fn the_name_is_one_that_csi_and_csi_sanity_take() {
        let is_letter = |at: Option<char>| at.is_some_and(|c| c.is_ascii_alphabetic());
        assert!(NAME.len() <= 63);
        assert!(is_letter(NAME.chars().next()) && is_letter(NAME.chars().last()));
        assert!(
            NAME.chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'))
        );
    }
}
