//! [`Identity`] over gRPC.

use async_trait::async_trait;

use super::connect::Client;
use super::{answer_limits, convert, status};
use nomad_csi_ports::{Identity, PluginCapabilities, PluginError, PluginInfo, Rpc};
use nomad_csi_proto::identity_client::IdentityClient;
use nomad_csi_proto::{GetPluginCapabilitiesRequest, GetPluginInfoRequest, ProbeRequest};

#[async_trait]
impl Identity for Client {
    async fn plugin_info(&self) -> Result<PluginInfo, PluginError> {
        let rpc = Rpc::GetPluginInfo;
        let response = self
            .call(rpc, GetPluginInfoRequest {}, async |channel, request| {
                IdentityClient::new(channel).get_plugin_info(request).await
            })
            .await?;
        if response.name.is_empty() {
            return Err(status::malformed(rpc, "the name is empty"));
        }
        if response.name.len() > answer_limits::NAME_BYTES {
            return Err(status::malformed(rpc, "the name has more than 128 bytes"));
        }
        let mut vendor_version = response.vendor_version;
        answer_limits::cut(&mut vendor_version, answer_limits::NAME_BYTES);
        self.note_driver(&response.name);
        Ok(PluginInfo { name: response.name, vendor_version })
    }

    async fn plugin_capabilities(&self) -> Result<PluginCapabilities, PluginError> {
        let response = self
            .call(
                Rpc::GetPluginCapabilities,
                GetPluginCapabilitiesRequest {},
                async |channel, request| {
                    let mut client = IdentityClient::new(channel);
                    client.get_plugin_capabilities(request).await
                },
            )
            .await?;
        Ok(convert::plugin_capabilities(&response.capabilities))
    }

    async fn probe(&self) -> Result<bool, PluginError> {
        let response = self
            .call(Rpc::Probe, ProbeRequest {}, async |channel, request| {
                IdentityClient::new(channel).probe(request).await
            })
            .await?;
        Ok(response.ready.unwrap_or(true))
    }
}
